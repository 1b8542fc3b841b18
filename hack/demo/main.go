// Command demo runs examples/gang-preempts-gang on a playground and narrates the events. It exits
// with 0 only if the expected preemption happens.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

// actTimeout is the timeout of each act of the demo. On an idle machine, an act takes seconds.
const actTimeout = 2 * time.Minute

func main() {
	examples := flag.String("example", filepath.Join("examples", "gang-preempts-gang"), "directory of the example's manifests")
	binDir := flag.String("bin-dir", "bin", "directory of the binaries")
	reportTo := flag.String("report", "", "file to write a report of the decisions to (default: demo-report.html beside the binaries)")
	keep := flag.Bool("keep", false, "keep the playground up at the end, until it is interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *examples, *binDir, *reportTo, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run starts a playground and runs the example on it.
func run(ctx context.Context, examples, binDir, reportTo string, keep bool) (err error) {
	out := newNarrator(os.Stdout, time.Now)
	out.title("A playground: eight simulated nodes of eight GPUs around a real API server")
	binDir, err = filepath.Abs(binDir)
	if err != nil {
		return fmt.Errorf("find the binaries: %w", err)
	}
	if reportTo == "" {
		reportTo = filepath.Join(binDir, "demo-report.html")
	}
	scratch, err := os.MkdirTemp("", "reprieve-demo-")
	if err != nil {
		return fmt.Errorf("keep a decision log: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	decisions := filepath.Join(scratch, "decisions.jsonl")
	p, err := playground.Start(ctx, playground.Options{
		BinDir: binDir,
		NodeGroups: []playground.NodeGroup{{Count: 8, Resources: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("64"),
			corev1.ResourceMemory: resource.MustParse("512Gi"),
			"nvidia.com/gpu":      resource.MustParse("8"),
		}}},
		CRDs:      crds.FS,
		Scheduler: playground.SchedulerOptions{Args: []string{"--decision-log=" + decisions}},
		Progress:  func(step string) { out.say("%s", step) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
		case <-p.Done():
			cancel(p.Err())
		}
	}()
	if err := play(ctx, p, os.DirFS(examples), out); err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			return errors.Join(cause, err)
		}
		return err
	}
	if err := awaitRecord(ctx, decisions); err != nil {
		return err
	}
	if err := writeReport(ctx, binDir, decisions, reportTo); err != nil {
		return err
	}
	out.title("The decisions, as a page to open in a browser: %s", reportTo)
	if keep {
		out.title("The playground stays up until it is interrupted: export KUBECONFIG=%s", p.Kubeconfig())
		<-ctx.Done()
	}
	return nil
}

// writeReport runs kubectl reprieve, which writes a report from the decision log to a file.
func writeReport(ctx context.Context, binDir, decisions, to string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, "kubectl-reprieve"), "report", decisions, "-o", to)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("write a report: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}
