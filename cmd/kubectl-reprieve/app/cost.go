package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// costAnswer is the answer of the subcommand cost.
type costAnswer struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// From is the time of the oldest decision in the period.
	From time.Time `json:"from"`
	// To is the time of the newest decision in the period.
	To time.Time `json:"to"`
	// Rows has one row for each pair of a queue and a rule.
	Rows []costRow `json:"rows"`
	// Sum is the sum of all rows.
	Sum costRow `json:"sum"`
}

// costRow is the work that preemptions lost: the sum over the victims of one queue that one rule
// permitted to evict.
type costRow struct {
	Queue string `json:"queue,omitempty"`
	Rule  string `json:"rule,omitempty"`
	// Preemptions counts victims: a victim is a pod or a whole group.
	Preemptions int `json:"preemptions"`
	// Pods counts the pods of all victims.
	Pods     int     `json:"pods"`
	GPUHours float64 `json:"gpuHours"`
	CPUHours float64 `json:"cpuHours"`
}

func (r *costRow) add(other *costRow) {
	r.Preemptions += other.Preemptions
	r.Pods += other.Pods
	r.GPUHours += other.GPUHours
	r.CPUHours += other.CPUHours
}

func (a *asking) costCommand() *cobra.Command {
	var queue string
	var since time.Duration
	var record recordSource
	all := false
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Sum the cost of preemptions for a team, by the scheduler's record",
		Long: `Sum the cost of preemptions by queue and rule, from the scheduler's record (--log or --scheduler). The cost is the
number of victims and pods, and the GPU-hours and CPU-hours that they had used since their start. The sum counts victims in the
namespace, with -A in all namespaces, or with --queue in one leaf Queue.`,
		Example: "  kubectl reprieve cost --queue team-a --since 168h --log decisions.jsonl",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !record.named() {
				return usage(errors.New("cost reads the scheduler's record: give --log FILE, or --scheduler URL"))
			}
			if err := record.check(); err != nil {
				return err
			}
			namespace, err := a.namespace()
			if err != nil {
				return err
			}
			if all || queue != "" {
				namespace = ""
			}
			answer, err := a.cost(cmd.Context(), &record, namespace, queue, since)
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, _ bool) error { return showCost(to, answer) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Count victims in all namespaces.")
	cmd.Flags().StringVar(&queue, "queue", "", "Count only victims in this leaf Queue, in any namespace.")
	cmd.Flags().DurationVar(&since, "since", 0, "Count only decisions within this time before the newest decision of the record, such as 168h.")
	record.addFlags(cmd.Flags())
	return cmd
}

func (a *asking) cost(ctx context.Context, from *recordSource, namespace, queue string, since time.Duration) (*costAnswer, error) {
	records, err := a.records(ctx, from)
	if err != nil {
		return nil, err
	}
	answer := &costAnswer{APIVersion: answerVersion, Kind: "Cost", Rows: []costRow{}}
	for i := range records {
		r := &records[i]
		if answer.To.IsZero() {
			// The records are sorted by time, newest first.
			answer.To = r.Time.UTC()
		}
		if since > 0 && r.Time.Before(answer.To.Add(-since)) {
			break
		}
		answer.From = r.Time.UTC()
		if !happened(r) {
			continue
		}
		for j := range r.Decision.Victims {
			v := &r.Decision.Victims[j]
			if namespace != "" && v.Namespace != namespace || queue != "" && v.Queue != queue {
				continue
			}
			row := costRow{Queue: v.Queue, Rule: string(v.Rule), Preemptions: 1, Pods: len(v.Pods)}
			for k := range r.Lost {
				if r.Lost[k].UID == v.UID {
					row.GPUHours, row.CPUHours = hoursOf(r.Lost[k].Spent)
				}
			}
			answer.take(&row)
		}
	}
	slices.SortFunc(answer.Rows, func(x, y costRow) int {
		return strings.Compare(x.Queue+"\x00"+x.Rule, y.Queue+"\x00"+y.Rule)
	})
	return answer, nil
}

// take adds a victim to the row of its queue and rule, and to the sum of all rows.
func (c *costAnswer) take(row *costRow) {
	c.Sum.add(row)
	at := slices.IndexFunc(c.Rows, func(r costRow) bool { return r.Queue == row.Queue && r.Rule == row.Rule })
	if at < 0 {
		c.Rows = append(c.Rows, *row)
		return
	}
	c.Rows[at].add(row)
}

// hoursOf returns the GPU-hours and CPU-hours of the resources in a record. A record has
// GPU-seconds and milli-CPU-seconds.
func hoursOf(spent map[string]float64) (gpu, cpu float64) {
	for name, amount := range spent {
		switch {
		case name == "cpu":
			cpu += amount / 1000 / 3600
		case workload.IsGPU(name):
			gpu += amount / 3600
		}
	}
	return gpu, cpu
}

func showCost(to io.Writer, answer *costAnswer) error {
	if len(answer.Rows) == 0 {
		_, err := io.WriteString(to, "The record has no preemption of these.\n")
		return err
	}
	rows := [][]string{{"QUEUE", "RULE", "PREEMPTIONS", "PODS", "GPU-HOURS LOST", "CPU-HOURS LOST"}}
	for _, r := range answer.Rows {
		rows = append(rows, costCells(orDash(r.Queue), r.Rule, &r))
	}
	if len(answer.Rows) > 1 {
		rows = append(rows, costCells("all", "", &answer.Sum))
	}
	if err := table(to, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "By decisions from %s to %s.\n", answer.From.Format(time.RFC3339), answer.To.Format(time.RFC3339))
	return err
}

func costCells(queue, rule string, r *costRow) []string {
	return []string{queue, rule, fmt.Sprint(r.Preemptions), fmt.Sprint(r.Pods), hours(r.GPUHours), hours(r.CPUHours)}
}
