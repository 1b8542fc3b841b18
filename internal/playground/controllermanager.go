package playground

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (p *Playground) controllerManagerSpec() componentSpec {
	args := []string{
		"--kubeconfig=" + p.adminKubeconfig(),
		"--leader-elect=false",
		// The controller manager needs no port, because it serves nothing.
		"--secure-port=0",
		"--service-account-private-key-file=" + p.certs.serviceAccountKey,
		"--root-ca-file=" + p.certs.authority.certFile(),
		"--allocate-node-cidrs=false",
		"--profiling=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		// The default directory is outside the data directory, and the controller manager would
		// create it.
		"--flex-volume-plugin-dir=" + filepath.Join(p.dir.path, "flexvolume"),
	}
	args = append(args, p.nativeControllerArgs()...)
	if len(p.options.Controllers) > 0 {
		args = append(args, "--controllers="+strings.Join(p.options.Controllers, ","))
	}
	return componentSpec{
		name:  ControllerManager,
		path:  p.paths[ControllerManager],
		args:  args,
		ready: p.defaultServiceAccountExists,
	}
}

// defaultServiceAccountExists is the readiness check of the controller manager. Without this
// service account, no pod can be created in the default namespace.
func (p *Playground) defaultServiceAccountExists(ctx context.Context) error {
	_, err := p.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the default service account: %w", err)
	}
	return nil
}
