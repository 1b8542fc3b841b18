package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// rowCap bounds one run of a row. scheduler_perf itself gives a side half an hour, and its leak
// check ten minutes.
const rowCap = 100 * time.Minute

// bench runs the benchmark binary. Each side of a row has a process for each run.
type bench struct {
	binary string
	// module is the directory of this module. moduleCache is the directory of the modules' sources.
	module, moduleCache string
	// kubernetes is the version of the Kubernetes modules.
	kubernetes string
	// outDir gets a directory for each row, with the measurements, the output, and the logs of
	// failed workloads.
	outDir  string
	size    string
	sides   []string
	profile bool
	stderr  io.Writer
}

// build compiles the benchmark into dir. CGO_ENABLED and GOFLAGS are set by the caller.
func (b *bench) build(ctx context.Context, dir string) error {
	b.binary = filepath.Join(dir, "throughput.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", b.binary, "./throughput")
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.module, b.stderr, b.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the benchmark: %w", err)
	}
	var err error
	if b.moduleCache, err = b.ask(ctx, "env", "GOMODCACHE"); err != nil {
		return err
	}
	b.kubernetes, err = b.ask(ctx, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	return err
}

// ask runs a go command in the module and returns its output.
func (b *bench) ask(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = b.module, b.stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// runOnce runs a row for the nth time and reads its figures. A failed workload is not an error: it
// has no figures, or its figures show how far it came. Each side has its own process. Otherwise the
// second side would start with the heap of the first.
func (b *bench) runOnce(ctx context.Context, r *row, n int) (map[string]*figures, error) {
	dir := filepath.Join(b.outDir, r.name, fmt.Sprint(n))
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, rowCap)
	defer cancel()
	for _, side := range b.order(r, n) {
		if err := b.runSide(ctx, r, side, dir); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return readFigures(dir, r.name)
}

// order returns the order of a row's sides in the nth run. If the aim is relative to the API calls,
// it includes the calls alone. Every other run has the reverse order, because the first side
// changes the state of the disk.
func (b *bench) order(r *row, n int) []string {
	sides := slices.Clone(b.sides)
	if at := slices.Index(sides, upstream); at >= 0 {
		sides[at] = r.rival()
	}
	if r.aim.calls > 0 {
		sides = append(sides, callsAlone)
	}
	if n%2 == 0 {
		slices.Reverse(sides)
	}
	return sides
}

// runSide runs a side of a row.
func (b *bench) runSide(ctx context.Context, r *row, side, dir string) error {
	output, err := os.OpenFile(filepath.Join(dir, "output.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// A run that is stopped cannot clean up after itself.
	tmp, err := os.MkdirTemp("", "perf-")
	if err != nil {
		return err
	}
	cmd := b.command(ctx, r, side, dir)
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	cmd.Stdout, cmd.Stderr = output, output
	err = cmd.Run()
	if err := errors.Join(output.Close(), os.RemoveAll(tmp)); err != nil {
		return err
	}
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(b.stderr, "%s: stopped: %v\n", r.name, ctx.Err())
	case errors.As(err, &failed):
		fmt.Fprintf(b.stderr, "%s: %v, see %s\n", r.name, err, dir)
	case err != nil:
		return fmt.Errorf("run %s: %w", r.name, err)
	}
	return nil
}

// command returns the command for one run of a side of a row.
func (b *bench) command(ctx context.Context, r *row, side, dir string) *exec.Cmd {
	args := []string{
		"-test.run=^$", "-test.bench=^BenchmarkPerfScheduling$", "-test.benchtime=1x", "-test.timeout=0",
		"-perf-scheduling-label-filter=" + r.name + "," + b.size, "-sides=" + side, "-data-items-dir=" + dir,
	}
	if b.profile {
		args = append(args, "-measured-cpuprofile-dir="+dir)
	}
	cmd := exec.CommandContext(ctx, b.binary, args...)
	cmd.Dir = filepath.Join(b.module, "throughput")
	cmd.Env = append(os.Environ(),
		// Logs are written there, and stay if the workload fails.
		"ARTIFACTS="+dir,
		// The test API server needs the fixtures next to its source. With -trimpath, the path of
		// that source is relative to the module cache. These variables complete the path.
		"TEST_SRCDIR="+b.moduleCache, "TEST_WORKSPACE=.")
	// Its etcd ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
