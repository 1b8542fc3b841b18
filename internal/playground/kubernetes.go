package playground

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// ErrNoWorkloadAPI is the error of Start if Options.NativeWorkloadAPI is set and the Kubernetes
// version has no Workload API.
var ErrNoWorkloadAPI = errors.New("there are no Workloads and PodGroups of scheduling.k8s.io")

// Kubernetes holds the properties of a Kubernetes version that the playground depends on.
type Kubernetes struct {
	// Minor is the number after "1.".
	Minor uint
	// WorkloadAPI is the version of the API group scheduling.k8s.io that has Workloads, behind
	// feature gates. It is empty if there is none.
	WorkloadAPI string
	// gates are the feature gates that the API server and the controller manager need for that API.
	gates string
}

// KubernetesIn returns the version of the kube-apiserver in a directory. It runs the binary to find
// out, and returns an error if that fails.
func KubernetesIn(ctx context.Context, binDir string) (Kubernetes, error) {
	return kubernetesOf(ctx, filepath.Join(binDir, APIServer))
}

func kubernetesOf(ctx context.Context, path string) (Kubernetes, error) {
	said, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Kubernetes{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	v, err := version.ParseGeneric(strings.TrimPrefix(strings.TrimSpace(string(said)), "Kubernetes "))
	if err != nil {
		return Kubernetes{}, fmt.Errorf("read the version of %s: %w", path, err)
	}
	return release(v.Minor()), nil
}

// release returns the properties of Kubernetes 1.minor.
func release(minor uint) Kubernetes {
	k := Kubernetes{Minor: minor}
	switch {
	case minor < 35:
	case minor == 35:
		k.WorkloadAPI, k.gates = "v1alpha1", "GenericWorkload=true"
	case minor == 36:
		k.WorkloadAPI, k.gates = "v1alpha2", "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
	default:
		k.WorkloadAPI, k.gates = "v1beta1", "GenericWorkload=true"
	}
	return k
}

// findKubernetes determines the Kubernetes version, if the options need a feature that some
// versions lack.
func (p *Playground) findKubernetes(ctx context.Context) error {
	if !p.options.NativeWorkloadAPI {
		return nil
	}
	var err error
	if p.release, err = kubernetesOf(ctx, p.paths[APIServer]); err != nil {
		return err
	}
	if p.release.WorkloadAPI == "" {
		return fmt.Errorf("kubernetes 1.%d: %w", p.release.Minor, ErrNoWorkloadAPI)
	}
	return nil
}
