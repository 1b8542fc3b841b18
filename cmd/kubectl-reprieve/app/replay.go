package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/replay"
)

// replayAnswer is the answer of the subcommand replay. Taken is the time of the last decision.
type replayAnswer struct {
	typed
	// Versions lists the versions of the schedulers that made the decisions, if the log has them.
	Versions []string `json:"versions,omitempty"`
	// Version is the version of this command, which repeats the decisions.
	Version string `json:"version"`
	// Same is the number of decisions that the replay repeats exactly.
	Same int `json:"same"`
	// Differs is the number of decisions with another result in the replay.
	Differs int `json:"differs"`
	// Unknown is the number of decisions that cannot be repeated.
	Unknown int `json:"unknown"`
	// Skipped is the number of broken lines.
	Skipped int `json:"skippedLines,omitempty"`
	// FirstSkipped describes the first broken line.
	FirstSkipped string          `json:"firstSkipped,omitempty"`
	Decisions    []replay.Answer `json:"decisions"`
}

func (a *asking) replayCommand() *cobra.Command {
	differing := false
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Repeat the decisions of a decision log",
		Long: `Repeat the decisions of the scheduler's decision log with the code of this command and the configuration of --config, and
show the differences. The log must have the inputs of the decisions: run the scheduler with --decision-log-inputs=redacted or full.
Name the files of --decision-log, with the rotated ones, in any order; - is standard input. Broken lines are skipped and counted.
For decisions without recorded inputs, --snapshot provides the cluster.

The answer is the same each time. A different decision is no failure: the exit code is 0.`,
		Example: "  kubectl reprieve replay decisions.jsonl.1 decisions.jsonl\n  kubectl reprieve replay decisions.jsonl --config next.yaml --differing -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(fmt.Errorf("%s needs the files of the scheduler's --decision-log", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.replay(cmd.Context(), args, differing) },
	}
	cmd.Flags().BoolVar(&differing, "differing", false, "Show only decisions that differ.")
	return cmd
}

// replay repeats the decisions in the given files, and prints the answer. If differing is true, it
// leaves out the decisions that it repeats exactly.
func (a *asking) replay(ctx context.Context, files []string, differing bool) error {
	shown := newProgress(a.streams.ErrOut, a.clock)
	answer, err := a.replayed(ctx, files, shown)
	shown.end()
	if err != nil {
		return err
	}
	if differing {
		answer.Decisions = slices.DeleteFunc(answer.Decisions, func(d replay.Answer) bool { return d.State == replay.Same })
	}
	return a.write(answer, func(to io.Writer, wide bool) error { return a.showReplay(to, answer, wide) })
}

func (a *asking) replayed(ctx context.Context, files []string, shown *progress) (*replayAnswer, error) {
	log, err := a.readInputs(files, shown)
	if err != nil {
		return nil, err
	}
	options := replay.Options{
		Config: a.configs(),
		Told:   func(done int) { shown.say("deciding again, %d of %d", done, log.Decisions()) },
	}
	if a.snapshot != "" {
		if options.Cluster, err = a.read(ctx, shown); err != nil {
			return nil, err
		}
	}
	switch {
	case log.Decisions() == 0:
		return nil, usage(fmt.Errorf("%s has no decision in it", strings.Join(files, ", ")))
	case !log.HasInputs() && options.Cluster == nil:
		return nil, usage(errors.New("the log does not have the inputs of decisions: run the scheduler with --decision-log-inputs=redacted, " +
			"or name a snapshot of that time with --snapshot"))
	}
	decided, err := log.Replay(ctx, options)
	if err != nil {
		return nil, err
	}
	_, last := log.Span()
	answer := &replayAnswer{
		typed:    typed{APIVersion: answerVersion, Kind: "Replay", Taken: last},
		Versions: log.Versions(), Version: schedulerapp.VersionLine(version.Get().GitVersion), Decisions: decided,
	}
	answer.Same, answer.Differs, answer.Unknown = replay.Counts(decided)
	answer.Skipped, answer.FirstSkipped = log.Broken()
	return answer, nil
}

// readInputs reads the files of a log.
func (a *asking) readInputs(files []string, shown *progress) (*replay.Log, error) {
	log := &replay.Log{}
	for _, name := range files {
		shown.say("reading %s", name)
		from, end, err := a.open(name)
		if err != nil {
			return nil, usage(err)
		}
		err = log.Read(filepath.Base(name), from)
		end()
		if err != nil {
			return nil, err
		}
	}
	return log, nil
}

// configs returns a function that reads the scheduler configuration in an inventory. It reads equal
// configurations once. The function is safe for concurrent use.
func (a *asking) configs() func(context.Context, *inventory.Inventory) (*config.KubeSchedulerConfiguration, error) {
	var mu sync.Mutex
	known := make(map[string]*config.KubeSchedulerConfiguration)
	return func(ctx context.Context, objects *inventory.Inventory) (*config.KubeSchedulerConfiguration, error) {
		mu.Lock()
		defer mu.Unlock()
		if cfg, ok := known[objects.Configuration]; ok {
			return cfg, nil
		}
		cfg, err := a.load(ctx, objects)
		if err != nil {
			return nil, usage(err)
		}
		known[objects.Configuration] = cfg
		return cfg, nil
	}
}

// showReplay prints an answer of replay as text.
func (a *asking) showReplay(to io.Writer, answer *replayAnswer, wide bool) error {
	if answer.Skipped > 0 {
		fmt.Fprintf(to, "%s skipped; the first is %s\n\n", plural(answer.Skipped, "broken line"), answer.FirstSkipped)
	}
	head := []string{"TIME", "PREEMPTOR", "THEN", "NOW", ""}
	if wide {
		head = append(head, "NODES THEN", "NODES NOW")
	}
	rows := [][]string{head}
	for i := range answer.Decisions {
		d := &answer.Decisions[i]
		row := []string{
			d.Time.UTC().Format(time.RFC3339), unitName(d.Preemptor.Namespace, d.Preemptor.Name, d.Preemptor.Gang), choiceInWords(&d.Then), choiceInWords(d.Now), a.stateInWords(d.State),
		}
		if wide {
			row = append(row, nodesInWords(&d.Then), nodesInWords(d.Now))
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 {
		if err := table(to, rows); err != nil {
			return err
		}
		fmt.Fprintln(to)
	}
	for i := range answer.Decisions {
		d := &answer.Decisions[i]
		if d.State == replay.Same {
			continue
		}
		fmt.Fprintf(to, "%s %s/%s, decision %d: %s\n", d.Time.UTC().Format(time.RFC3339), d.Preemptor.Namespace, d.Preemptor.Name, d.Sequence, d.Why)
		if d.Now != nil {
			fmt.Fprintf(to, "  then: %s\n  now:  %s\n", d.Then.Message, d.Now.Message)
		}
	}
	said := fmt.Sprintf("%s: %d same, %d differ, %d unknown", plural(answer.Same+answer.Differs+answer.Unknown, "decision"), answer.Same, answer.Differs, answer.Unknown)
	if others := slices.DeleteFunc(slices.Clone(answer.Versions), func(v string) bool { return v == answer.Version }); len(others) > 0 {
		said += fmt.Sprintf("; decided by %s, and now by %s", strings.Join(others, " and "), answer.Version)
	}
	_, err := fmt.Fprintln(to, said)
	return err
}

func (a *asking) stateInWords(state replay.State) string {
	switch state {
	case replay.Same:
		return "same"
	case replay.Differs:
		return a.paint(bad, "differs")
	default:
		return a.paint(fair, "unknown")
	}
}

// choiceInWords describes a decision and its victims.
func choiceInWords(c *replay.Choice) string {
	if c == nil {
		return "-"
	}
	out := string(c.Outcome)
	if c.Reason != "" {
		out += " (" + c.Reason + ")"
	}
	const most = 3
	var names []string
	for i := range c.Victims {
		if len(names) == most {
			names = append(names, fmt.Sprintf("and %d more", len(c.Victims)-most))
			break
		}
		names = append(names, c.Victims[i].Namespace+"/"+c.Victims[i].Name)
	}
	if len(names) > 0 {
		out += ": " + strings.Join(names, ", ")
	}
	return out
}

func nodesInWords(c *replay.Choice) string {
	if c == nil || len(c.Nodes) == 0 {
		return "-"
	}
	return strings.Join(slices.Compact(slices.Sorted(maps.Values(c.Nodes))), ",")
}
