package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/report"
)

// reportFile is the default file of a report.
const reportFile = "report.html"

// ownerOnly is the file mode of files that name pods of all namespaces: only their owner may read
// them.
const ownerOnly = 0o600

func (a *asking) reportCommand() *cobra.Command {
	to := ""
	var plan []string
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Write a page about a decision log",
		Long: `Write one HTML page about the scheduler's decision log: preemptors and victims, times, rules, the lost work, and loops of
preemptions. The page needs no network. Name the files of the scheduler's --decision-log, with the rotated ones; - is standard
input. Broken lines are skipped and counted. With --snapshot, the page shows the tree of queues, and a map of the GPUs and the
workloads that use them. With --plan, the map also shows the state after a manifest. The usage of queues over time needs a log
that was written with --decision-log-inputs.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(fmt.Errorf("%s needs the files of the scheduler's --decision-log", cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.report(cmd.Context(), args, plan, to) },
	}
	// This flag replaces the persistent flag of the same name, which is the format of answers.
	cmd.Flags().StringArrayVar(&plan, "plan", nil, "Manifests to plan on the cluster of --snapshot: the map shows the state before and after. Repeat for more.")
	cmd.Flags().StringVarP(&to, "output", "o", reportFile, "The file to write; - for standard output.")
	return cmd
}

// report writes the report page about decision logs to a file.
func (a *asking) report(ctx context.Context, files, plan []string, to string) error {
	if len(plan) > 0 && a.snapshot == "" {
		return usage(errors.New("--plan is for the map of a cluster: give the cluster with --snapshot"))
	}
	in, err := a.readLogs(files)
	if err != nil {
		return err
	}
	if a.snapshot != "" {
		if err := a.addCluster(ctx, &in, plan); err != nil {
			return err
		}
	}
	made := report.Build(in)
	if to == "-" {
		return report.Write(a.streams.Out, made, report.Still)
	}
	if err := writeReport(to, made); err != nil {
		return err
	}
	broken := 0
	for _, s := range in.Sources {
		broken += s.Broken
	}
	said := fmt.Sprintf("Wrote %s: %s, %s", to, plural(made.Totals.Decisions, "decision"), plural(made.Totals.Stops, "stop"))
	if broken > 0 {
		said += fmt.Sprintf("; %s passed over", plural(broken, "broken line"))
	}
	_, err = fmt.Fprintln(a.streams.Out, said)
	return err
}

// addCluster adds the queues of the snapshot, and the map of the snapshot's GPUs, to the input of
// the page.
func (a *asking) addCluster(ctx context.Context, in *report.Input, plan []string) error {
	documents, err := a.planFiles(plan)
	if err != nil {
		return err
	}
	shown := newProgress(a.streams.ErrOut, a.clock)
	asked, err := a.gather(ctx, shown)
	shown.end()
	if err != nil {
		return err
	}
	if in.Queues, err = queuesOf(asked.objects); err != nil {
		return err
	}
	parties, err := partiesOf(ctx, asked)
	if err != nil {
		return err
	}
	in.Map, err = a.mapOf(ctx, asked, parties, documents)
	return err
}

// writeReport writes the page to a file.
func writeReport(path string, made *report.Report) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, ownerOnly)
	if err != nil {
		return usage(fmt.Errorf("--output: %w", err))
	}
	err = report.Write(file, made, report.Still)
	return errors.Join(err, file.Close())
}

// readLogs reads decision logs.
func (a *asking) readLogs(files []string) (report.Input, error) {
	var in report.Input
	var history queueHistory
	var nothing error
	for _, name := range files {
		from, end, err := a.open(name)
		if err != nil {
			return in, usage(err)
		}
		beside := report.Beside{Inputs: history.add, WaitEnd: func(end *decisionlog.WaitEnd) { in.Ends = append(in.Ends, *end) }}
		entries, source, err := report.Read(filepath.Base(name), from, beside)
		end()
		if err = ofLog(name, err); err != nil && !isEmpty(err) {
			return in, err
		}
		nothing = cmp.Or(nothing, err)
		in.Entries, in.Sources = append(in.Entries, entries...), append(in.Sources, source)
	}
	if len(in.Entries) == 0 {
		return in, nothing
	}
	if in.Usage = history.samples(); !history.told {
		in.NoUsage = noUsageInLog
	}
	return in, nil
}

// queuesOf returns the queues in an inventory.
func queuesOf(objects *inventory.Inventory) ([]report.Queue, error) {
	queues, err := inventory.Decode[*v1alpha1.Queue](objects, inventory.Queues)
	if err != nil {
		return nil, err
	}
	out := make([]report.Queue, 0, len(queues))
	for _, q := range queues {
		out = append(out, queueOf(q))
	}
	return out, nil
}

func queueOf(q *v1alpha1.Queue) report.Queue {
	none := ""
	out := report.Queue{Name: q.Name, Parent: *cmp.Or(q.Spec.Parent, &none), Quota: make(map[string]string, len(q.Spec.Quota))}
	for resource, quantity := range q.Spec.Quota {
		out.Quota[string(resource)] = quantity.String()
	}
	return out
}
