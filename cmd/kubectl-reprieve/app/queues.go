package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// queuesAnswer is the answer of the subcommand queues.
type queuesAnswer struct {
	typed
	// Queues lists each queue before the queues below it.
	Queues []queueRow `json:"queues"`
	// Changes lists the shares that change because of the objects of --with. It is absent without
	// --with.
	Changes []shareChange `json:"changes,omitempty"`
}

// queueRow is one queue of the tree.
type queueRow struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	Depth  int    `json:"depth"`
	// Waiting is the number of pods without a node, in the queue and in all queues below it.
	Waiting int32            `json:"waiting"`
	Amounts []resourceAmount `json:"amounts"`
	// Ready is the reason why the queue cannot be used; empty if it can be used.
	Ready string `json:"notReady,omitempty"`
	// Unserved is the reason why the queue does not get its whole quota; empty if it gets all of
	// it.
	Unserved string `json:"quotaNotServed,omitempty"`
	// Gone is true for a deleted queue that pods with a node still name. These pods continue to
	// run, and count for no queue.
	Gone bool `json:"gone,omitempty"`
	// Below describes the work that waits although the queue uses less than its quota; nil if there
	// is none.
	Below *belowQuota `json:"belowQuota,omitempty"`
}

// belowQuota describes the pending work of a queue whose usage is below its quota.
type belowQuota struct {
	// Resources lists the resources that pending pods request, and whose usage is below the quota.
	Resources []string `json:"resources"`
	// Pods is the number of pending pods that request one of Resources.
	Pods int `json:"pods"`
	// Since is the creation time of the oldest pending pod that requests one of Resources.
	Since time.Time `json:"since"`
	// Leaf is true if some of the pending pods are in the queue itself, and not in a queue below
	// it.
	Leaf bool `json:"leaf"`
}

// verb returns a number of pods with a verb in the singular or the plural, such as "2 pods wait".
func verb(n int, one, many string) string {
	if n == 1 {
		return "1 pod " + one
	}
	return fmt.Sprintf("%d pods %s", n, many)
}

// setBelow fills in the field Below of every queue, from the pending pods of the cluster. Each pod
// counts for its leaf queue and for all queues above it.
func (answer *queuesAnswer) setBelow(cluster *whatif.Cluster) {
	at := make(map[string]int, len(answer.Queues))
	for i := range answer.Queues {
		at[answer.Queues[i].Name] = i
	}
	for _, w := range cluster.Workloads() {
		for _, pod := range w.Pods {
			if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || isGated(pod) {
				continue
			}
			seen := make(map[string]bool)
			for name, leaf := w.Queue, true; name != "" && !seen[name]; leaf = false {
				i, known := at[name]
				if !known {
					break
				}
				seen[name] = true
				answer.Queues[i].waits(pod, leaf)
				name = answer.Queues[i].Parent
			}
		}
	}
}

// waits adds a pending pod to Below if the pod requests a resource whose usage is below the queue's
// quota. leaf is true if the queue is the pod's own queue.
func (q *queueRow) waits(pod *corev1.Pod, leaf bool) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var short []string
	for i := range q.Amounts {
		amount := &q.Amounts[i]
		if asked := requests[corev1.ResourceName(amount.Resource)]; !asked.IsZero() && amount.used < amount.quota {
			short = append(short, amount.Resource)
		}
	}
	if len(short) == 0 {
		return
	}
	if q.Below == nil {
		q.Below = &belowQuota{Since: pod.CreationTimestamp.UTC()}
	}
	b := q.Below
	b.Pods++
	b.Leaf = b.Leaf || leaf
	if at := pod.CreationTimestamp.UTC(); at.Before(b.Since) {
		b.Since = at
	}
	for _, name := range short {
		if !slices.Contains(b.Resources, name) {
			b.Resources = append(b.Resources, name)
		}
	}
}

// resourceAmount has the amounts of one resource in a queue.
type resourceAmount struct {
	Resource string `json:"resource"`
	Used     string `json:"used"`
	Share    string `json:"share"`
	// Quota is the effective quota.
	Quota string `json:"quota"`
	// SpecQuota is the quota in the spec of the Queue. It is present only if it exceeds the quota
	// of the parent.
	SpecQuota string `json:"specQuota,omitempty"`
	Limit     string `json:"limit,omitempty"`
	// Borrowed is the usage above the quota.
	Borrowed string `json:"borrowed"`

	used, share, quota float64
}

func (a *asking) queuesCommand() *cobra.Command {
	var with []string
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "Show the tree of queues: quota, share, used, borrowed, waiting",
		Long: `Show the tree of queues. A row is about one resource of the quota or limit of a queue. It has the usage, the fair share,
the quota, and the amount borrowed beyond the quota. The fair share is the amount that the queue is entitled to now. A quota above the parent's
is limited to the parent's. The row then shows the effective quota, with the quota of the spec beside it. In the bars, # is
usage within the quota, + is borrowed, and - is unused entitlement.

With --with, the table includes the objects of a manifest. A second table shows the change of each share: which queues gain
and which lose by other quotas, for the current demand.`,
		Example: "  kubectl reprieve queues\n  kubectl reprieve queues --with other-quotas.yaml",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.queues(cmd.Context(), shown, with)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, wide bool) error { return a.showQueues(to, answer, wide) })
		},
	}
	cmd.Flags().StringArrayVar(&with, "with", nil, withUsage)
	return cmd
}

func (a *asking) queues(ctx context.Context, shown *progress, with []string) (*queuesAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	if len(with) == 0 {
		return queuesNow(ctx, asked)
	}
	before, err := queuesNow(ctx, asked)
	if err != nil {
		return nil, err
	}
	if err := a.suppose(ctx, asked, with); err != nil {
		return nil, err
	}
	answer, err := queuesNow(ctx, asked)
	if err != nil {
		return nil, err
	}
	answer.Changes = changesOf(before, answer)
	return answer, nil
}

// shareChange is the change of a queue's fair share of one resource. Before and After are the
// shares.
type shareChange struct {
	Queue    string `json:"queue"`
	Resource string `json:"resource"`
	Before   string `json:"before"`
	After    string `json:"after"`
	// Gains is true if the share grows.
	Gains bool `json:"gains"`
	// Reclaimable is the usage above the new share, which other queues may reclaim.
	Reclaimable string `json:"reclaimable"`
}

// changesOf returns the shares that differ between two answers, in the order of the queues in the
// second answer.
func changesOf(before, after *queuesAnswer) []shareChange {
	was := make(map[[2]string]resourceAmount)
	for _, q := range before.Queues {
		for _, amount := range q.Amounts {
			was[[2]string{q.Name, amount.Resource}] = amount
		}
	}
	out := []shareChange{}
	for _, q := range after.Queues {
		for _, amount := range q.Amounts {
			old := was[[2]string{q.Name, amount.Resource}]
			if old.share == amount.share {
				continue
			}
			past := resource.MustParse(amount.Used)
			past.Sub(resource.MustParse(amount.Share))
			if past.Sign() < 0 {
				past.Set(0)
			}
			out = append(out, shareChange{
				Queue: q.Name, Resource: amount.Resource, Before: cmp.Or(old.Share, "0"), After: amount.Share, Gains: amount.share > old.share, Reclaimable: past.String(),
			})
		}
	}
	return out
}

// showChanges prints the changes of shares.
func (a *asking) showChanges(to io.Writer, changes []shareChange) error {
	if changes == nil {
		return nil
	}
	if len(changes) == 0 {
		_, err := io.WriteString(to, "\nNo share changes.\n")
		return err
	}
	fmt.Fprintln(to)
	rows := [][]string{{"QUEUE", "RESOURCE", "SHARE NOW", "THEN", "", "USED PAST IT"}}
	for _, c := range changes {
		word := a.paint(bad, "loses")
		if c.Gains {
			word = a.paint(good, "gains")
		}
		rows = append(rows, []string{c.Queue, c.Resource, c.Before, c.After, word, c.Reclaimable})
	}
	return table(to, rows)
}

func queuesNow(ctx context.Context, asked *question) (*queuesAnswer, error) {
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
	// Add the queues that no root leads to, because they form a cycle.
	descend(queues, 0)
	answer.setBelow(cluster)
	return answer, nil
}

func rowOf(q whatif.Queue, depth int) queueRow {
	row := queueRow{Name: q.Name, Parent: ptr.Deref(q.Spec.Parent, ""), Depth: depth, Waiting: q.Status.Waiting, Amounts: []resourceAmount{}, Gone: q.Gone}
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

// barWidth is the length of the longest bar, in characters.
const barWidth = 24

// bar draws the usage, quota and share of a queue as a bar. full is the amount of a bar of length
// barWidth.
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
	if err := table(to, a.queueRows(answer.Queues, wide)); err != nil {
		return err
	}
	if err := tellUnserved(to, answer.Queues); err != nil {
		return err
	}
	if err := tellBelowAndGone(to, answer.Queues); err != nil {
		return err
	}
	return a.showChanges(to, answer.Changes)
}

// queueRows returns the rows of the table, one for each queue and resource. If wide is false, it
// leaves out resources that have no quota or limit in any queue, except in the rows of deleted
// queues.
func (a *asking) queueRows(queues []queueRow, wide bool) [][]string {
	full, bounded := make(map[string]float64), make(map[string]bool)
	for _, q := range queues {
		for _, amount := range q.Amounts {
			bounded[amount.Resource] = bounded[amount.Resource] || amount.Quota != "0" || amount.SpecQuota != "" || amount.Limit != ""
			full[amount.Resource] = max(full[amount.Resource], amount.used, amount.share, amount.quota)
		}
	}
	rows := [][]string{{"QUEUE", "WAITING", "RESOURCE", "USED", "SHARE", "QUOTA", "LIMIT", "BORROWED", ""}}
	for _, q := range queues {
		name, waiting := strings.Repeat("  ", q.Depth)+q.Name, plural(int(q.Waiting), "pod")
		if q.Ready != "" {
			rows = append(rows, []string{name, waiting, a.paint(bad, "not ready: "+q.Ready)})
			continue
		}
		shown := 0
		for i := range q.Amounts {
			amount := &q.Amounts[i]
			if !wide && !q.Gone && !bounded[amount.Resource] {
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
	return rows
}

// tellBelowAndGone prints the leaf queues below their quota with pending work, and the deleted
// queues with running pods.
func tellBelowAndGone(to io.Writer, queues []queueRow) error {
	for _, q := range queues {
		if b := q.Below; b != nil && b.Leaf {
			_, err := fmt.Fprintf(to, "%s: below its quota of %s while %s; the oldest has waited since %s.\n", q.Name, strings.Join(b.Resources, " and "), verb(b.Pods, "waits", "wait"), b.Since.Format(time.RFC3339))
			if err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
		}
	}
	for _, q := range queues {
		if !q.Gone {
			continue
		}
		if _, err := fmt.Fprintf(to, "%s: the queue does not exist. The pods that name it go on and count for no queue; create it again, or let them end.\n", q.Name); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
	}
	return nil
}

// tellUnserved prints the queues that do not get their whole quota, and the reason for each.
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
