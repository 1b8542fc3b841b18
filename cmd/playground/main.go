// Command playground runs a Kubernetes control plane with simulated nodes and the Reprieve
// scheduler on one machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A write to standard output fails if its reader has ended, for example in a pipe. Ignore the
	// signal of such a write, so that the shutdown continues.
	signal.Ignore(syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	command := newCommand(os.Stdout, os.Stderr)
	err := command.ExecuteContext(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}
