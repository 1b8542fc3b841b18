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
	// The reader of the output may be gone before the shutdown. The shutdown must continue
	// regardless.
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
