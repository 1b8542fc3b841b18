package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/whatif"
	"github.com/reprieve-dev/reprieve/internal/workload"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// degradedAnswer is the answer of the subcommand degraded.
type degradedAnswer struct {
	typed
	Gangs []degradedRow `json:"gangs"`
}

// degradedRow describes a gang that occupies nodes although it has too few members to run.
type degradedRow struct {
	Gang  string `json:"gang"`
	Queue string `json:"queue,omitempty"`
	// Placed is the number of members with a node.
	Placed int `json:"placed"`
	// Needed is minCount. For a tree of groups, it is Placed plus the members that its groups lack,
	// and at least minCount.
	Needed int `json:"needed"`
	// GPUs is the number of GPUs that the placed members hold.
	GPUs float64 `json:"gpus"`
	// Since is the time when the gang began to lack members, from its condition Degraded. Without
	// that condition, it is the time when the newest placed member got its node.
	Since time.Time `json:"since,omitzero"`
	// Why is the message of the condition Degraded. It is empty if the gang never had enough
	// members.
	Why string `json:"why,omitempty"`
}

func (a *asking) degradedCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "degraded",
		Short: "Show the gangs that hold nodes with fewer members than they need",
		Long: `Show the gangs, in all namespaces, that have some members on nodes, but fewer than minCount. Each row has the number of
these members, the GPUs that they hold, and since when the gang lacks members. That time comes from the condition Degraded, or
else it is when the newest of these members was bound.`,
		Example: "  kubectl reprieve degraded",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.degraded(cmd.Context(), shown)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, _ bool) error { return showDegraded(to, answer) })
		},
	}
}

func (a *asking) degraded(ctx context.Context, shown *progress) (*degradedAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	answer := &degradedAnswer{typed: typed{APIVersion: answerVersion, Kind: "Degraded", Taken: asked.objects.Taken.UTC()}, Gangs: []degradedRow{}}
	groups, err := podGroups(asked.objects)
	if err != nil {
		return nil, err
	}
	conditions := make(map[string]*metav1.Condition)
	for _, pg := range groups {
		if c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionDegraded); c != nil && c.Status == metav1.ConditionTrue {
			conditions[unitName(pg.Namespace, pg.Name, true)] = c
		}
	}
	for _, w := range cluster.Workloads() {
		if row, short := rowOfDegraded(&w); short {
			if c := conditions[row.Gang]; c != nil {
				row.Since, row.Why = c.LastTransitionTime.UTC(), c.Message
			}
			answer.Gangs = append(answer.Gangs, row)
		}
	}
	return answer, nil
}

// rowOfDegraded returns the row of a gang that has placed members but too few of them. For other
// work, it returns false.
func rowOfDegraded(w *whatif.Workload) (degradedRow, bool) {
	row := degradedRow{Gang: unitName(w.Namespace, w.Name, true), Queue: w.Queue, Needed: w.MinCount}
	var placed []*corev1.Pod
	for _, pod := range w.Pods {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		placed = append(placed, pod)
		if at := preemptiontoleration.ScheduledAt(pod).UTC(); at.After(row.Since) {
			row.Since = at
		}
		row.GPUs += gpusOf(pod)
	}
	row.Placed = len(placed)
	lacking, enough := w.Lacking(placed)
	if w.Tree != nil {
		// A missing group lacks members as well.
		row.Needed = max(row.Placed+lacking, w.MinCount)
	}
	return row, w.Gang && row.Placed > 0 && !enough
}

// gpusOf returns the number of GPUs that a pod requests.
func gpusOf(pod *corev1.Pod) (sum float64) {
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if workload.IsGPU(string(name)) {
			sum += quantity.AsApproximateFloat64()
		}
	}
	return sum
}

func showDegraded(to io.Writer, answer *degradedAnswer) error {
	if len(answer.Gangs) == 0 {
		_, err := io.WriteString(to, "Every gang that holds nodes has as many members on them as it needs.\n")
		return err
	}
	rows := [][]string{{"GANG", "QUEUE", "PLACED", "GPUS", "SINCE", "WHY"}}
	for _, g := range answer.Gangs {
		since := "-"
		if !g.Since.IsZero() {
			since = g.Since.Format(time.RFC3339)
		}
		rows = append(rows, []string{g.Gang, orDash(g.Queue), fmt.Sprintf("%d/%d", g.Placed, g.Needed), fmt.Sprint(g.GPUs), since, orDash(g.Why)})
	}
	return table(to, rows)
}
