// Command suites runs kube-scheduler's integration tests of pod groups against Reprieve. It copies
// the tests from the version of Kubernetes that this repository requires. The original tests run
// kube-scheduler in the process of the test. The copies use one control plane, and run the binary
// of Reprieve.
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

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/hack/docpage"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

func main() {
	binDir := flag.String("bin-dir", "bin", "directory of the binaries")
	doc := flag.String("doc", "", "page to write the results into; empty prints them")
	selection := flag.String("test", "", "part of the names of the tests to run, and print the results; empty runs all")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *binDir, *doc, *selection)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binDir, doc, selection string) (err error) {
	binDir, err = filepath.Abs(binDir)
	if err != nil {
		return fmt.Errorf("find the binaries: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	kubernetes, version, err := moduleDir(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "reprieve-suites-")
	if err != nil {
		return fmt.Errorf("make a directory for the copies: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := copySuites(root, kubernetes, dir); err != nil {
		return err
	}
	p, err := startCluster(ctx, binDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	config, err := writeConfig(dir, p.SchedulerKubeconfig())
	if err != nil {
		return err
	}
	with := setup{Kubeconfig: p.Kubeconfig(), Scheduler: filepath.Join(binDir, "reprieve-scheduler"), Config: config, Skips: skips()}
	var all []outcome
	for _, pkg := range packages() {
		outcomes, err := runPackage(ctx, dir, pkg, selection, with)
		if err != nil {
			return err
		}
		all = append(all, outcomes...)
	}
	if selection != "" {
		doc = ""
	}
	if err := docpage.Write(doc, beginMark, endMark, page(version, all)); err != nil {
		return err
	}
	if n := countOf(failed, all); n > 0 {
		return fmt.Errorf("%d cases fail, and hack/suites/reasons.go has no reason for them", n)
	}
	return nil
}

// countOf returns the number of cases that have the result.
func countOf(result string, outcomes []outcome) int {
	n := 0
	for _, o := range outcomes {
		if o.result == result {
			n++
		}
	}
	return n
}

// startCluster starts a control plane with the feature gates that the tests need. No controller or
// kubelet changes the objects, and some admission plugins are off, as in upstream's tests.
func startCluster(ctx context.Context, binDir string) (*playground.Playground, error) {
	const gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,PodGroupPreemptionPolicy=true"
	return playground.Start(ctx, playground.Options{
		BinDir: binDir, CRDs: crds.FS,
		Scheduler:   playground.SchedulerOptions{Path: playground.NoScheduler},
		Controllers: []string{"serviceaccount-controller", "serviceaccount-token-controller", "namespace-controller"},
		ExtraArgs: map[string][]string{
			playground.APIServer: {
				"--feature-gates=" + gates,
				"--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
				"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority,StorageObjectInUseProtection",
			},
			playground.Kwok: {"--manage-all-nodes=false", "--manage-nodes-with-label-selector=node.of/suites=none"},
		},
	})
}

// writeConfig writes a configuration file for the scheduler, without leader election and with a
// short back-off. Its only profile has the name of the default scheduler.
func writeConfig(dir, kubeconfig string) (string, error) {
	text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}
      queueSort: {enabled: [{name: ReprievePrioritySort}], disabled: [{name: PrioritySort}]}
      preFilter: {enabled: [{name: Reprieve}]}
`, kubeconfig)
	path := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	return path, nil
}
