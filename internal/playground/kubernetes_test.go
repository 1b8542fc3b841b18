package playground

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKubernetesIn(t *testing.T) {
	t.Parallel()
	for said, c := range map[string]struct {
		want    Kubernetes
		wantErr bool
	}{
		"Kubernetes v1.34.4":         {want: Kubernetes{Minor: 34}},
		"Kubernetes v1.35.0-rc.1":    {want: Kubernetes{Minor: 35, WorkloadAPI: "v1alpha1", gates: "GenericWorkload=true"}},
		"Kubernetes v1.36.3":         {want: Kubernetes{Minor: 36, WorkloadAPI: "v1alpha2", gates: "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"}},
		"Kubernetes v1.37.1+vendor1": {want: Kubernetes{Minor: 37, WorkloadAPI: "v1beta1", gates: "GenericWorkload=true"}},
		"something else":             {wantErr: true},
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, APIServer), []byte("#!/bin/sh\necho '"+said+"'\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			got, err := KubernetesIn(t.Context(), dir)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("got %+v, error %v", got, err)
			}
		})
	}
}
