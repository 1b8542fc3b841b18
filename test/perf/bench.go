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

// rowCap is the timeout of one run of a row. A row has several sides, which are the compared
// schedulers. scheduler_perf itself bounds each side to 30 minutes, and its check for leaks to 10
// minutes.
const rowCap = 100 * time.Minute

// bench runs the benchmark binary. Each run of a side of a row has its own process.
type bench struct {
	binary string
	// module is the directory of this Go module. moduleCache is Go's module cache.
	module, moduleCache string
	// kubernetes is the version of the required Kubernetes modules.
	kubernetes string
	// outDir is the directory for the results. It gets a subdirectory for each row, with the
	// measurements, the output, and the logs of failed workloads.
	outDir  string
	size    string
	sides   []string
	profile bool
	stderr  io.Writer
}

// build compiles the benchmark binary and writes it to dir. The caller must set the environment
// variables CGO_ENABLED and GOFLAGS.
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

// ask runs the go command in the module and returns its output.
func (b *bench) ask(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = b.module, b.stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// runOnce makes run number n of a row and returns the figures of each side. A failed workload is
// not an error: its figures are missing, or show how many pods were placed. Each side runs in its
// own process, so that its heap does not contain objects of the other side.
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

// order returns the sides of a row in their order for run number n. If the aim of the row is
// relative to the API calls, a side without a scheduler is included. Every second run has the
// reverse order, because the first side changes the state of the disk.
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

// runSide makes one run of one side of a row.
func (b *bench) runSide(ctx context.Context, r *row, side, dir string) error {
	output, err := os.OpenFile(filepath.Join(dir, "output.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	// The run gets its own temporary directory, because a killed process cannot remove its files.
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

// command returns the command for one run of one side of a row.
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
		// The test framework writes logs to this directory, and keeps them if the workload fails.
		"ARTIFACTS="+dir,
		// The test API server reads files next to its source code. With -trimpath, the path of this
		// source code is relative to the module cache. These variables complete the path.
		"TEST_SRCDIR="+b.moduleCache, "TEST_WORKSPACE=.")
	// The process and its etcd form a process group, so that both are killed together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
