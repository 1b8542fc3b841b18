package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/uuid"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// standardOutput is what --decision-log says for it.
const standardOutput = "-"

// megabyte is the unit of --decision-log-maxsize.
const megabyte = 1 << 20

// DecisionLogOptions say where the record of decisions is written. The latest are in memory in any
// case.
type DecisionLogOptions struct {
	// Path is the file, "-" for standard output, or empty for nowhere.
	Path string
	// MaxSize is how large the file becomes before it is rotated, in megabytes, from 1 on.
	MaxSize int
	// MaxBackup is how many older files are kept, from 0 on.
	MaxBackup int
	// Inputs says whether what decisions went by is written as well: none, redacted or full; empty
	// for none.
	Inputs string
}

// addFlags adds the flags, whose names are like those of kube-apiserver for its audit log.
func (o *DecisionLogOptions) addFlags(sets *cliflag.NamedFlagSets) {
	flags := sets.FlagSet("decision log")
	o.MaxSize, o.MaxBackup, o.Inputs = 100, 5, withoutInputs
	flags.StringVar(&o.Path, "decision-log", o.Path,
		"A file to write a line of JSON to for each decision that preempts, waits or finds no way; \"-\" for standard output.")
	flags.IntVar(&o.MaxSize, "decision-log-maxsize", o.MaxSize,
		"How many megabytes the file of --decision-log has before it is rotated.")
	flags.IntVar(&o.MaxBackup, "decision-log-maxbackup", o.MaxBackup,
		"How many rotated files of --decision-log are kept, named with \".1\" at the end and so on, the newest first.")
	flags.StringVar(&o.Inputs, "decision-log-inputs", o.Inputs,
		"Whether --decision-log has the cluster as well that decisions went by, for kubectl reprieve replay: \"none\", \"redacted\" (without what may tell of people) or \"full\".")
}

// validate refuses numbers that make no sense.
func (o *DecisionLogOptions) validate() error {
	if o.MaxSize < 1 {
		return fmt.Errorf("--decision-log-maxsize is %d megabytes; it has to be at least 1", o.MaxSize)
	}
	if o.MaxBackup < 0 {
		return fmt.Errorf("--decision-log-maxbackup is %d; it has to be at least 0", o.MaxBackup)
	}
	return o.validateInputs()
}

// open opens what lines are written to; nil for nothing.
func (o *DecisionLogOptions) open(stdout io.Writer) (io.Writer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	switch o.Path {
	case "":
		return nil, nil //nolint:nilnil // That there is none is no error.
	case standardOutput:
		return stdout, nil
	}
	file, err := decisionlog.OpenFile(o.Path, int64(o.MaxSize)*megabyte, o.MaxBackup)
	var path *os.PathError
	if errors.As(err, &path) {
		// The error itself has the name once more.
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("--decision-log %s: %w; name a file in a directory that exists and can be written to", o.Path, err)
	}
	return file, nil
}

// processName is a name for this process that no other one has: the one by which it holds the
// lease, if it takes one.
func processName(cc *schedulerconfig.CompletedConfig) (string, error) {
	if cc.LeaderElection != nil {
		return cc.LeaderElection.Lock.Identity(), nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the name of this host: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// writingObserver counts what becomes of records, and logs that they cannot be written: once, until
// one is again.
type writingObserver struct {
	logger  klog.Logger
	metrics *metrics.Metrics
	path    string
	failing atomic.Bool
}

var _ decisionlog.Observer = (*writingObserver)(nil)

// Written is part of decisionlog.Observer.
func (w *writingObserver) Written() {
	w.metrics.Recorded(metrics.Written)
	if w.failing.CompareAndSwap(true, false) {
		w.logger.Info("Decisions are written again", "decisionLog", w.path)
	}
}

// Dropped is part of decisionlog.Observer.
func (w *writingObserver) Dropped() { w.metrics.Recorded(metrics.Dropped) }

// Unwritable is part of decisionlog.Observer.
func (w *writingObserver) Unwritable(err error) {
	w.metrics.Recorded(metrics.Unwritable)
	if w.failing.CompareAndSwap(false, true) {
		w.logger.Error(err, "Decisions cannot be written; they are left out until they can", "decisionLog", w.path)
	}
}

// startWriting has a log write until ctx is done, or until the call of end, which returns when all
// has been written.
func startWriting(ctx context.Context, log *decisionlog.Log) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() { log.Run(ctx) })
	return func() {
		cancel()
		writing.Wait()
	}
}
