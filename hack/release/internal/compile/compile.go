package compile

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// killDelay is the time between the interrupt of the go command and its kill.
const killDelay = 15 * time.Second

// Options has the programs to build, and the flags of the builds.
type Options struct {
	// Root is the directory of the repository.
	Root string
	// Out is the directory for the programs. The function Path returns the path of each program in
	// Out.
	Out      string
	Products []product.Product
	// Flags has the linker flags for the programs of this repository. PartFlags has the linker
	// flags for the other programs.
	Flags, PartFlags string
	// Progress receives a line of text for each step of the builds.
	Progress io.Writer
}

// Path returns the path of a program for a platform. dir is the directory of all programs.
func Path(dir string, b product.Binary, on product.Platform) string {
	return filepath.Join(dir, on.Dir(), on.Binary(b.Name))
}

// Step is the build of one program for one platform.
type Step struct {
	Binary   product.Binary
	Platform product.Platform
}

// Steps returns the builds for the products, without duplicates and grouped by platform. With this
// order, a build can use the packages that the previous build compiled for its platform.
func Steps(products []product.Product) []Step {
	var platforms []product.Platform
	for _, p := range products {
		for _, on := range p.Platforms {
			if !slices.Contains(platforms, on) {
				platforms = append(platforms, on)
			}
		}
	}
	var out []Step
	for _, on := range platforms {
		for _, p := range products {
			if !slices.Contains(p.Platforms, on) {
				continue
			}
			for _, b := range p.Binaries {
				if s := (Step{b, on}); !slices.Contains(out, s) {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// Run builds all programs. An interrupted run continues where it stopped, because the go command
// caches compiled packages.
func Run(ctx context.Context, o Options) error {
	tools, err := os.MkdirTemp("", "release")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(tools) }()
	// The program that shows the progress must run on this machine, so it is built for this
	// machine's platform.
	meter := filepath.Join(tools, "build")
	if err := run(ctx, o, nil, "go", "build", "-trimpath", "-buildvcs=false", "-o", meter, "./hack/build"); err != nil {
		return fmt.Errorf("build the program that shows progress: %w", err)
	}
	steps := Steps(o.Products)
	for i, s := range steps {
		label := fmt.Sprintf("[%d/%d] %s %s", i+1, len(steps), s.Binary.Name, s.Platform)
		fmt.Fprintln(o.Progress, label)
		flags := o.PartFlags
		if s.Binary.Ours {
			flags = o.Flags
		}
		out, err := filepath.Abs(Path(o.Out, s.Binary, s.Platform))
		if err != nil {
			return fmt.Errorf("find a place for %s: %w", s.Binary.Name, err)
		}
		args := []string{
			label, "-C", s.Binary.Module, "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", out, s.Binary.Package,
		}
		if err := run(ctx, o, environment(s.Platform), meter, args...); err != nil {
			return fmt.Errorf("build %s for %s: %w", s.Binary.Name, s.Platform, err)
		}
	}
	return nil
}

// environment returns the environment variables that affect the bytes of a program. Each has a
// fixed value, so a build is reproducible.
func environment(on product.Platform) []string {
	return []string{
		"GOOS=" + on.OS, "GOARCH=" + on.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOFLAGS=-trimpath", "GOWORK=off",
	}
}

func run(ctx context.Context, o Options, env []string, command string, args ...string) error {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir = o.Root
	cmd.Env = slices.Concat(os.Environ(), []string{"CGO_ENABLED=0"}, env)
	cmd.Stdout, cmd.Stderr = o.Progress, o.Progress
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	return cmd.Run()
}
