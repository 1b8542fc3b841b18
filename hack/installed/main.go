// Command installed measures the scheduler's binary with the configuration of an installation. It
// starts the binary on a playground, and watches the API with a client. It writes tables of the
// results into a page of the documentation.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/hack/docpage"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// beginMark and endMark are the lines around the tables in the documentation.
const (
	beginMark = "<!-- Written by make perf-installed. -->"
	endMark   = "<!-- Up to here. -->"
)

// setting is a set of command-line flags of the scheduler.
type setting struct {
	name string
	args []string
}

// settings returns the settings that are compared. The first is the default configuration.
func settings() []setting {
	return []setting{
		{name: "as installed"},
		{name: "50 calls a second", args: []string{"--kube-api-qps=50", "--kube-api-burst=100"}},
		{name: "no limit on calls", args: []string{"--kube-api-qps=-1"}},
	}
}

func main() {
	binDir := flag.String("bin-dir", "bin", "directory of the binaries")
	doc := flag.String("doc", "", "page to write the tables into; empty prints them")
	runs := flag.Int("runs", 5, "the number of measurements of each thing, except the large cluster and the tenants")
	config := flag.String("config", "deploy/config/scheduler.yaml", "configuration of an installation")
	only := flag.String("only", "", "the one thing to measure, and print: gangs, neighbours, large or churn; empty measures all")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &measuring{binDir: *binDir, doc: *doc, config: *config, only: *only, runs: *runs})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "installed:", err)
		os.Exit(1)
	}
}

// measuring has the values of the flags.
type measuring struct {
	binDir, doc, config, only string
	runs                      int
}

func run(ctx context.Context, m *measuring) error {
	binDir, err := filepath.Abs(m.binDir)
	if err != nil {
		return fmt.Errorf("find the binaries: %w", err)
	}
	parts := []struct {
		name    string
		measure func() (table string, err error)
	}{
		{"gangs", func() (string, error) {
			results, err := measureGangs(ctx, binDir, m.runs)
			return gangTable(results), err
		}},
		{"neighbours", func() (string, error) {
			results, err := measureNeighbours(ctx, binDir, m.runs)
			return neighbourTable(results), err
		}},
		{"large", func() (string, error) {
			result, err := measureLarge(ctx, binDir, m.config)
			if err != nil {
				return "", fmt.Errorf("large cluster: %w", err)
			}
			return largeTable(result), nil
		}},
		{"churn", func() (string, error) {
			phases, err := measureChurn(ctx, binDir)
			if err != nil {
				return "", fmt.Errorf("churn of a tenant: %w", err)
			}
			return churnTable(phases), nil
		}},
	}
	var tables []string
	for _, part := range parts {
		if m.only != "" && m.only != part.name {
			continue
		}
		table, err := part.measure()
		if err != nil {
			return err
		}
		tables = append(tables, table)
	}
	if tables == nil {
		return fmt.Errorf("-only %s: there are gangs, neighbours, large and churn", m.only)
	}
	text := fmt.Sprintf("Measured with `make perf-installed RUNS=%d` on %d cores for all processes together.\nThe large cluster and the tenants have one run.\n\n%s", m.runs, runtime.NumCPU(), strings.Join(tables, "\n"))
	path := m.doc
	if m.only != "" {
		path = ""
	}
	return docpage.Write(path, beginMark, endMark, text)
}

// start starts a playground, and a scheduler with the flags of the setting. If the setting is nil,
// start starts no scheduler.
func start(ctx context.Context, binDir string, s *setting, nodes playground.NodeGroup) (*playground.Playground, error) {
	options := playground.Options{BinDir: binDir, CRDs: crds.FS, NodeGroups: []playground.NodeGroup{nodes}}
	if s == nil {
		options.Scheduler.Path = playground.NoScheduler
	} else {
		options.Scheduler.Args = s.args
	}
	return playground.Start(ctx, options)
}
