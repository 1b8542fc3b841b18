package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// queuesAnswer is the answer of queues.
type queuesAnswer struct {
	typed
	// Queues are in the order of the tree, those at the top first.
	Queues []queueRow `json:"queues"`
}

// queueRow is one queue of the tree.
type queueRow struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	Depth  int    `json:"depth"`
	// Waiting is how many pods of the queue, and of all below it, have no node.
	Waiting int32            `json:"waiting"`
	Amounts []resourceAmount `json:"amounts"`
	// Ready is why the queue cannot be used; empty where it can.
	Ready string `json:"notReady,omitempty"`
	// Unserved is why the queue does not get its quota, or not all of it; empty where it does.
	Unserved string `json:"quotaNotServed,omitempty"`
}

// resourceAmount is how a queue stands in one resource.
type resourceAmount struct {
	Resource string `json:"resource"`
	Used     string `json:"used"`
	Share    string `json:"share"`
	// Quota is what counts, and SpecQuota what the spec has where that is more than the parent's.
	Quota     string `json:"quota"`
	SpecQuota string `json:"specQuota,omitempty"`
	Limit     string `json:"limit,omitempty"`
	// Borrowed is what is used beyond the quota.
	Borrowed string `json:"borrowed"`

	used, share, quota float64
}

func (a *asking) queuesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "queues",
		Short: "Show the tree of queues: quota, share, used, borrowed, waiting",
		Long: `Show the tree of queues with what each has of every resource that its quota or limit names: what is used, what the
queue is entitled to at present (its fair share), its quota, and what it has borrowed beyond that. A quota above the parent's is cut down to that: what counts is
shown, and what the spec has beside it. In the bars, # is used within
the quota, + is borrowed, and - is what the queue is entitled to and does not use.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.queues(cmd.Context(), shown)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, wide bool) error { return a.showQueues(to, answer, wide) })
		},
	}
}

func (a *asking) queues(ctx context.Context, shown *progress) (*queuesAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	queues, err := cluster.Queues()
	if err != nil {
		return nil, err
	}
	answer := &queuesAnswer{typed: typed{APIVersion: answerVersion, Kind: "Queues", Taken: asked.objects.Taken.UTC()}, Queues: []queueRow{}}
	below := make(map[string][]whatif.Queue)
	known := make(map[string]bool)
	for _, q := range queues {
		known[q.Name] = true
	}
	for _, q := range queues {
		parent := ptr.Deref(q.Spec.Parent, "")
		if !known[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], q)
	}
	seen := make(map[string]bool)
	var descend func(list []whatif.Queue, depth int)
	descend = func(list []whatif.Queue, depth int) {
		for _, q := range list {
			if seen[q.Name] {
				continue
			}
			seen[q.Name] = true
			answer.Queues = append(answer.Queues, rowOf(q, depth))
			descend(below[q.Name], depth+1)
		}
	}
	descend(below[""], 0)
	// Those that are their own ancestors are below nothing.
	descend(queues, 0)
	return answer, nil
}

func rowOf(q whatif.Queue, depth int) queueRow {
	row := queueRow{Name: q.Name, Parent: ptr.Deref(q.Spec.Parent, ""), Depth: depth, Waiting: q.Status.Waiting, Amounts: []resourceAmount{}}
	if c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionQueueReady); c != nil && c.Status != metav1.ConditionTrue {
		row.Ready = c.Message
	}
	if c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionQuotaServed); c != nil && c.Status == metav1.ConditionFalse {
		row.Unserved = c.Message
	}
	names := make(map[corev1.ResourceName]bool)
	for _, list := range []corev1.ResourceList{q.Spec.Quota, q.Spec.Limit, q.Status.Allocated, q.Status.FairShare} {
		for name := range list {
			names[name] = true
		}
	}
	var sorted []corev1.ResourceName
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		used, share, quota, spec := q.Status.Allocated[name], q.Status.FairShare[name], q.Spec.Quota[name], ""
		if counts, isCut := q.Cut[name]; isCut {
			quota, spec = counts, quota.String()
		}
		borrowed := used.DeepCopy()
		borrowed.Sub(quota)
		if borrowed.Sign() < 0 {
			borrowed.Set(0)
		}
		amount := resourceAmount{
			Resource: string(name), Used: used.String(), Share: share.String(), Quota: quota.String(), SpecQuota: spec, Borrowed: borrowed.String(),
			used: used.AsApproximateFloat64(), share: share.AsApproximateFloat64(), quota: quota.AsApproximateFloat64(),
		}
		if limit, ok := q.Spec.Limit[name]; ok {
			amount.Limit = limit.String()
		}
		row.Amounts = append(row.Amounts, amount)
	}
	return row
}

// barWidth is how many characters the longest bar has.
const barWidth = 24

// bar draws how a queue stands, where full is the longest bar's amount.
func bar(amount *resourceAmount, full float64) string {
	if full <= 0 {
		return ""
	}
	scale := func(v float64) int { return int(v/full*barWidth + 0.5) }
	within := scale(min(amount.used, amount.quota))
	borrowed := scale(amount.used) - within
	idle := max(scale(amount.share)-scale(amount.used), 0)
	return strings.Repeat("#", within) + strings.Repeat("+", max(borrowed, 0)) + strings.Repeat("-", idle)
}

func (a *asking) showQueues(to io.Writer, answer *queuesAnswer, wide bool) error {
	if len(answer.Queues) == 0 {
		_, err := io.WriteString(to, "There are no queues.\n")
		return err
	}
	full, bounded := make(map[string]float64), make(map[string]bool)
	for _, q := range answer.Queues {
		for _, amount := range q.Amounts {
			bounded[amount.Resource] = bounded[amount.Resource] || amount.Quota != "0" || amount.SpecQuota != "" || amount.Limit != ""
			full[amount.Resource] = max(full[amount.Resource], amount.used, amount.share, amount.quota)
		}
	}
	rows := [][]string{{"QUEUE", "WAITING", "RESOURCE", "USED", "SHARE", "QUOTA", "LIMIT", "BORROWED", ""}}
	for _, q := range answer.Queues {
		name, waiting := strings.Repeat("  ", q.Depth)+q.Name, plural(int(q.Waiting), "pod")
		if q.Ready != "" {
			rows = append(rows, []string{name, waiting, a.paint(bad, "not ready: "+q.Ready)})
			continue
		}
		shown := 0
		for i := range q.Amounts {
			amount := &q.Amounts[i]
			if !wide && !bounded[amount.Resource] {
				continue
			}
			quota := amount.Quota
			if amount.SpecQuota != "" {
				quota += fmt.Sprintf(" (of %s)", amount.SpecQuota)
			}
			rows = append(rows, []string{
				name, waiting, amount.Resource, amount.Used, amount.Share, quota, orDash(amount.Limit), amount.Borrowed, bar(amount, full[amount.Resource]),
			})
			name, waiting = "", ""
			shown++
		}
		if shown == 0 {
			rows = append(rows, []string{name, waiting})
		}
	}
	if err := table(to, rows); err != nil {
		return err
	}
	return tellUnserved(to, answer.Queues)
}

// tellUnserved says of which queues the quota is not served, and why.
func tellUnserved(to io.Writer, queues []queueRow) error {
	for _, q := range queues {
		if q.Unserved == "" || q.Ready != "" {
			continue
		}
		if _, err := fmt.Fprintf(to, "%s: %s.\n", q.Name, q.Unserved); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
	}
	return nil
}
