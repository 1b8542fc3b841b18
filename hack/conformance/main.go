// Command conformance checks on a real API server that gangs start whole or not at all. It writes
// the results into a page of the documentation, even if a check fails.
//
// The first checks test the requirement on gang scheduling in the CNCF AI conformance program
// (KAR-0053). The other checks show preemption by a gang. The program does not require preemption.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/hack/docpage"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

const (
	// nodeCount is the number of nodes, and gpusPerNode the number of GPUs of each node.
	nodeCount, gpusPerNode = 4, 8
	gpu                    = corev1.ResourceName("example.com/gpu")
	// patience is the timeout of each check. On an idle machine, a check takes seconds.
	patience = 3 * time.Minute
)

func main() {
	binDir := flag.String("bin-dir", "bin", "directory of the binaries")
	doc := flag.String("doc", "", "page to write the evidence into; empty prints it")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *binDir, *doc)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// run starts a cluster, runs all checks and writes the page. It returns an error if a check fails.
func run(ctx context.Context, binDir, doc string) (err error) {
	binDir, err = filepath.Abs(binDir)
	if err != nil {
		return fmt.Errorf("find the binaries: %w", err)
	}
	p, err := playground.Start(ctx, playground.Options{
		BinDir: binDir, CRDs: crds.FS,
		NodeGroups: []playground.NodeGroup{{Count: nodeCount, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), gpu: *resource.NewQuantity(gpusPerNode, resource.DecimalSI),
		}}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	version, err := serverVersion(p)
	if err != nil {
		return err
	}
	c, err := newCluster(p.RESTConfig())
	if err != nil {
		return err
	}
	if err := c.createClasses(ctx); err != nil {
		return err
	}
	var results []result
	for _, one := range checks() {
		r, err := c.perform(ctx, one)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", one.name, r.word())
		results = append(results, r)
	}
	if err := docpage.Write(doc, beginMark, endMark, page(version, results)); err != nil {
		return err
	}
	return failures(results)
}

// serverVersion asks the API server for the version of Kubernetes.
func serverVersion(p *playground.Playground) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(p.RESTConfig())
	if err != nil {
		return "", fmt.Errorf("make the discovery client: %w", err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return info.GitVersion, nil
}
