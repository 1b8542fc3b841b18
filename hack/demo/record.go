package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/report"
)

const (
	// recordTimeout is the timeout of awaitRecord. The scheduler writes the decision log
	// concurrently with its scheduling cycles, so an entry may appear later than its event.
	recordTimeout = 30 * time.Second
	// recordPause is the interval between two reads of the decision log.
	recordPause = 100 * time.Millisecond
)

// awaitRecord waits until the decision log shows no waiting workload.
func awaitRecord(ctx context.Context, decisions string) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	for {
		waiting, err := waitingIn(decisions)
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the decision log says that %q still waits although all work runs: %w", waiting, context.Cause(ctx))
		case <-time.After(recordPause):
		}
	}
}

// waitingIn returns the names of the workloads that still wait at the end of a decision log.
func waitingIn(decisions string) ([]string, error) {
	file, err := os.Open(decisions)
	if err != nil {
		return nil, fmt.Errorf("read the decision log: %w", err)
	}
	defer func() { _ = file.Close() }()
	var in report.Input
	in.Entries, _, err = report.Read(decisions, file, report.Beside{WaitEnd: func(end *decisionlog.WaitEnd) { in.Ends = append(in.Ends, *end) }})
	if err != nil {
		return nil, fmt.Errorf("read the decision log: %w", err)
	}
	made := report.Build(in)
	var out []string
	for _, w := range made.Waiting {
		out = append(out, made.Workloads[w.Workload].Namespace+"/"+made.Workloads[w.Workload].Name)
	}
	return out, nil
}
