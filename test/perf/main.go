// Command perf compares the throughput of Reprieve with the throughput of kube-scheduler, on the
// workloads in throughput/. It writes the table in docs/results/performance.md. `make perf` runs
// it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

// options has the values of the command-line flags.
type options struct {
	bench
	doc   string
	count int
	names []string
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{bench: bench{stderr: stderr}}
	fs := flag.NewFlagSet("perf", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.module, "module", ".", "directory of this module")
	fs.StringVar(&o.outDir, "out", "", "directory for what the runs leave behind")
	fs.StringVar(&o.doc, "doc", "", "document with the table to bring up to date; only at size full and with both sides")
	fs.StringVar(&o.size, "size", sizeFull, "small, medium or full")
	fs.IntVar(&o.count, "count", 1, "how often to run each workload; the table has the run in the middle")
	fs.BoolVar(&o.profile, "profile", false, "write a CPU profile of the time in which pods are measured")
	sides := fs.String("sides", upstream+","+reprieve, "sides to run, in this order")
	workloads := fs.String("workloads", "", "names of the workloads to run, separated by spaces or commas; all if empty")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	o.names = strings.FieldsFunc(*workloads, func(c rune) bool { return c == ',' || c == ' ' })
	o.sides = strings.Split(*sides, ",")
	for _, side := range o.sides {
		if side != upstream && side != reprieve {
			return nil, fmt.Errorf("no side %q; there are %s and %s", side, upstream, reprieve)
		}
	}
	if o.count < 1 {
		return nil, fmt.Errorf("-count is %d, and has to be at least 1", o.count)
	}
	if o.outDir == "" {
		return nil, errors.New("-out is missing")
	}
	var err error
	if o.module, err = filepath.Abs(o.module); err != nil {
		return nil, err
	}
	o.outDir, err = filepath.Abs(o.outDir)
	return o, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	selected, err := selectRows(rows(), o.size, o.names)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		return fmt.Errorf("etcd has to be in PATH: %w", err)
	}
	if err := os.MkdirAll(o.outDir, 0o755); err != nil {
		return err
	}
	if err := o.build(ctx, o.outDir); err != nil {
		return err
	}
	var results []result
	var failed []string
	for i := range selected {
		res, err := o.measure(ctx, &selected[i])
		if err != nil {
			return err
		}
		results = append(results, *res)
		if res.ours.check() != nil {
			failed = append(failed, selected[i].name)
		}
		// Write the results after each row, because they are useful even if a later row fails.
		if err := o.report(setting(runtime.NumCPU(), o.kubernetes), results); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "\n%s", table(setting(runtime.NumCPU(), o.kubernetes), rows(), o.size, results, ""))
	if len(o.sides) == 2 && len(failed) > 0 {
		return fmt.Errorf("workloads that Reprieve did not finish: %s", strings.Join(failed, ", "))
	}
	return nil
}

// measure makes the requested number of runs of a row, and returns the median run of each side.
func (o *options) measure(ctx context.Context, r *row) (*result, error) {
	var theirs, ours, calls []*figures
	for n := 1; n <= o.count; n++ {
		fmt.Fprintf(o.stderr, "%s: run %d of %d\n", r.name, n, o.count)
		got, err := o.runOnce(ctx, r, n)
		if err != nil {
			return nil, err
		}
		theirs, ours, calls = append(theirs, got[r.rival()]), append(ours, got[reprieve]), append(calls, got[callsAlone])
		for _, side := range o.order(r, n) {
			fmt.Fprintf(o.stderr, "%s: %s: %s, %s pods/s\n", r.name, side, placed(got[side]), rate(got[side].PerSecond.Average))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return &result{row: *r, upstream: median(theirs), ours: median(ours), calls: median(calls)}, nil
}

// report writes the results into the page.
func (o *options) report(setting string, results []result) error {
	if o.doc == "" || o.size != sizeFull || len(o.sides) != 2 {
		return nil
	}
	raw, err := os.ReadFile(o.doc)
	if err != nil {
		return err
	}
	before, old, after, err := splitDocument(string(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", o.doc, err)
	}
	doc := before + "\n" + table(setting, rows(), o.size, results, old) + "\n" + after
	return os.WriteFile(o.doc, []byte(doc), 0o644)
}
