package api

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

const moduleRoot = "../../.."

// startAPIServer starts etcd and kube-apiserver with this repository's CRDs, and stops them after the test.
func startAPIServer(t *testing.T) client.Client {
	t.Helper()

	environment := &envtest.Environment{
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: time.Minute},
		CRDDirectoryPaths:        []string{filepath.Join(moduleRoot, "deploy", "crds")},
		ErrorIfCRDPathMissing:    true,
		// A cluster that the environment variables of envtest happen to name is not ours to write to.
		UseExistingCluster: ptr.To(false),
	}
	environment.ControlPlane.GetAPIServer().Path = binary(t, "kube-apiserver")
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: binary(t, "etcd")}

	config, err := environment.Start()
	// Start leaves behind what it has started when a later step fails, a CRD that is refused for example.
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("Stop the API server: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("Start the API server: %v", err)
	}

	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// binary is the path of a control-plane binary that `make build` has built.
func binary(t *testing.T, name string) string {
	t.Helper()

	dir := os.Getenv("REPRIEVE_BIN")
	if dir == "" {
		dir = filepath.Join(moduleRoot, "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing; run `make build` first: %v", name, err)
	}
	return path
}
