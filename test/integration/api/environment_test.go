package api

import (
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// startAPIServer starts etcd and an API server with this repository's CRDs. They stop after the
// test.
func startAPIServer(t *testing.T) *rest.Config {
	t.Helper()
	bin := playgroundtest.BinDir(t, playground.APIServer, playground.Etcd)
	environment := &envtest.Environment{
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: time.Minute},
		CRDDirectoryPaths:        []string{filepath.Join(playgroundtest.ModuleRoot(t), "deploy", "crds")},
		ErrorIfCRDPathMissing:    true,
		// Environment variables of envtest may select an existing cluster. The tests must not write
		// to such a cluster.
		UseExistingCluster: ptr.To(false),
	}
	environment.ControlPlane.GetAPIServer().Path = filepath.Join(bin, playground.APIServer)
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(bin, playground.Etcd)}

	config, err := environment.Start()
	// If Start fails late, for example because a CRD is rejected, it leaves its processes running.
	// So register their end before Start.
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("Stop the API server: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("Start the API server: %v", err)
	}

	return config
}

// clientFor returns a client for the types of this repository.
func clientFor(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
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
