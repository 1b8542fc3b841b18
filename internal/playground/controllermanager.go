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
		// It serves nothing, so it needs no port.
		"--secure-port=0",
		"--service-account-private-key-file=" + p.certs.serviceAccountKey,
		"--root-ca-file=" + p.certs.authority.certFile(),
		"--allocate-node-cidrs=false",
		"--profiling=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		// The default is a directory outside the data directory, and the controller manager would
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

// defaultServiceAccountExists is the readiness of the controller manager. Without the service
// account, no pod can be created.
func (p *Playground) defaultServiceAccountExists(ctx context.Context) error {
	_, err := p.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the default service account: %w", err)
	}
	return nil
}
