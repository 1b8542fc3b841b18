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

// standardOutput is the value of --decision-log for standard output.
const standardOutput = "-"

// megabyte is the unit of --decision-log-maxsize.
const megabyte = 1 << 20

// DecisionLogOptions configure the decision log. They do not affect the latest records in memory,
// which always exist.
type DecisionLogOptions struct {
	// Path is the file name; "-" for standard output, and "" for no log.
	Path string
	// MaxSize is the largest size of the file in megabytes; at least 1. A larger file is rotated.
	MaxSize int
	// MaxBackup is the number of rotated files to keep; at least 0.
	MaxBackup int
	// Inputs selects how the inputs of decisions are recorded: none, redacted or full. Empty means
	// none.
	Inputs string
}

// addFlags adds the flags and sets the defaults. The names follow the flags of kube-apiserver's
// audit log.
func (o *DecisionLogOptions) addFlags(sets *cliflag.NamedFlagSets) {
	flags := sets.FlagSet("decision log")
	o.MaxSize, o.MaxBackup, o.Inputs = 100, 5, withoutInputs
	flags.StringVar(&o.Path, "decision-log", o.Path,
		"A file that gets a line of JSON for each decision that preempts, waits or fails; \"-\" for standard output.")
	flags.IntVar(&o.MaxSize, "decision-log-maxsize", o.MaxSize,
		"The maximum size of the file of --decision-log in megabytes. Larger files are rotated.")
	flags.IntVar(&o.MaxBackup, "decision-log-maxbackup", o.MaxBackup,
		"The number of rotated files of --decision-log to keep, with the suffixes \".1\" (the newest), \".2\" and so on.")
	flags.StringVar(&o.Inputs, "decision-log-inputs", o.Inputs,
		"How --decision-log records the cluster state of decisions, for kubectl reprieve replay: \"none\", "+
			"\"redacted\" (without data that may identify people) or \"full\".")
}

// validate returns an error if a value is out of range.
func (o *DecisionLogOptions) validate() error {
	if o.MaxSize < 1 {
		return fmt.Errorf("--decision-log-maxsize is %d megabytes; it has to be at least 1", o.MaxSize)
	}
	if o.MaxBackup < 0 {
		return fmt.Errorf("--decision-log-maxbackup is %d; it has to be at least 0", o.MaxBackup)
	}
	return o.validateInputs()
}

// open opens the file of the log. It returns a nil writer if no log is configured.
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
		// Unwrap the error, because the message below has the name of the file.
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("--decision-log %s: %w; name a file in a directory that exists and can be written to", o.Path, err)
	}
	return file, nil
}

// processName returns a unique name for this process. With leader election, it is the holder
// identity that this process uses for the lease.
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

// writingObserver counts written and lost records. It logs the first failure to write a record, and
// the first failure after each success.
type writingObserver struct {
	logger  klog.Logger
	metrics *metrics.Metrics
	path    string
	failing atomic.Bool
}

var _ decisionlog.Observer = (*writingObserver)(nil)

// Written implements decisionlog.Observer.
func (w *writingObserver) Written() {
	w.metrics.Recorded(metrics.Written)
	if w.failing.CompareAndSwap(true, false) {
		w.logger.Info("Decisions are written again", "decisionLog", w.path)
	}
}

// Dropped implements decisionlog.Observer.
func (w *writingObserver) Dropped() { w.metrics.Recorded(metrics.Dropped) }

// Unwritable implements decisionlog.Observer.
func (w *writingObserver) Unwritable(err error) {
	w.metrics.Recorded(metrics.Unwritable)
	if w.failing.CompareAndSwap(false, true) {
		w.logger.Error(err, "Decisions cannot be written; they are left out until they can", "decisionLog", w.path)
	}
}

// startWriting starts a goroutine that writes the log until ctx is done or end is called. end
// returns after all records are written.
func startWriting(ctx context.Context, log *decisionlog.Log) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var writing sync.WaitGroup
	writing.Go(func() { log.Run(ctx) })
	return func() {
		cancel()
		writing.Wait()
	}
}
