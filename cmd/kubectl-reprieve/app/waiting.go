package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// waitingAnswer is the answer of the subcommand waiting.
type waitingAnswer struct {
	typed
	// Waiting lists the pending work in the order of the scheduler's queue.
	Waiting []waitingRow `json:"waiting"`
	// NotTried lists the pending work that the scheduler cannot try yet.
	NotTried []waitingRow `json:"notTried"`
}

// waitingRow is one pending workload.
type waitingRow struct {
	// Place is the position in the scheduler's order, from 1. It is 0 for work that the scheduler
	// cannot try yet.
	Place    int    `json:"place,omitempty"`
	Work     string `json:"work"`
	Queue    string `json:"queue,omitempty"`
	Priority int32  `json:"priority"`
	// Pods is the number of the workload's pods without a node.
	Pods int `json:"pods"`
	// Since is the creation time of the workload's oldest pod without a node.
	Since time.Time `json:"since"`
	// Reason is the reason in the status of the workload.
	Reason string `json:"reason,omitempty"`
	// Why is the message in the status of the workload.
	Why string `json:"why,omitempty"`
}

func (a *asking) waitingCommand() *cobra.Command {
	queue := ""
	cmd := &cobra.Command{
		Use:   "waiting",
		Short: "Show the waiting work in the order of the scheduler, with causes",
		Long: `Show the workloads that wait for nodes, in all namespaces and in the order of the scheduler, with the messages of their
statuses. If there are Queues, work of the queue furthest below its share comes first, and the order applies within each queue.
Pods of one owner with the same message share a line; -o wide lists them. Work that cannot be tried yet follows: pods with
scheduling gates, and gangs with too few members.`,
		Example: "  kubectl reprieve waiting\n  kubectl reprieve waiting --queue team-a",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.waiting(cmd.Context(), shown, queue)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer.answer, func(to io.Writer, wide bool) error { return answer.show(to, wide) })
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "Only work of this leaf Queue.")
	return cmd
}

// waitingShown is an answer of waiting, with the owners of pods for the table.
type waitingShown struct {
	answer *waitingAnswer
	owners owners
}

func (a *asking) waiting(ctx context.Context, shown *progress, queue string) (*waitingShown, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	first, err := cluster.Waiting()
	if err != nil {
		return nil, err
	}
	place := make(map[string]int, len(first))
	for i, pod := range first {
		place[string(pod.UID)] = i + 1
	}
	groups, err := podGroups(asked.objects)
	if err != nil {
		return nil, err
	}
	scheduled := make(map[string]*v1alpha1.PodGroup, len(groups))
	for _, pg := range groups {
		scheduled[unitName(pg.Namespace, pg.Name, true)] = pg
	}
	answer := &waitingAnswer{typed: typed{APIVersion: answerVersion, Kind: "Waiting", Taken: asked.objects.Taken.UTC()}, Waiting: []waitingRow{}, NotTried: []waitingRow{}}
	profiles := profilesOf(asked.cfg)
	for _, w := range cluster.Workloads() {
		row, ok := rowOfWaiting(&w, place, profiles)
		if !ok || queue != "" && row.Queue != queue {
			continue
		}
		if pg := scheduled[row.Work]; pg != nil {
			if c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled); c != nil && c.Status == metav1.ConditionFalse {
				row.Reason, row.Why = c.Reason, c.Message
			}
		}
		if row.Reason == "" {
			// A group that does not exist has no status.
			row.Reason, row.Why = w.Blocked.Reason, w.Blocked.Message
		}
		if row.Place > 0 {
			answer.Waiting = append(answer.Waiting, row)
		} else {
			answer.NotTried = append(answer.NotTried, row)
		}
	}
	slices.SortStableFunc(answer.Waiting, func(x, y waitingRow) int { return x.Place - y.Place })
	of, err := ownersOf(asked.objects)
	return &waitingShown{answer, of}, err
}

// rowOfWaiting returns the row of a workload. It returns false if no pod of the workload waits for
// one of the given profiles.
func rowOfWaiting(w *whatif.Workload, place map[string]int, profiles []string) (waitingRow, bool) {
	row := waitingRow{Work: unitName(w.Namespace, w.Name, w.Gang), Queue: w.Queue, Priority: w.Priority}
	for _, pod := range w.Pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || !slices.Contains(profiles, pod.Spec.SchedulerName) {
			continue
		}
		row.Pods++
		if at := pod.CreationTimestamp.UTC(); row.Since.IsZero() || at.Before(row.Since) {
			row.Since = at
		}
		if n := place[string(pod.UID)]; n > 0 {
			row.Place = n
		}
		if isGated(pod) {
			row.Reason, row.Why = "SchedulingGated", fmt.Sprintf("scheduling gate %q has not been lifted", pod.Spec.SchedulingGates[0].Name)
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && row.Why == "" {
				row.Reason, row.Why = c.Reason, c.Message
			}
		}
	}
	return row, row.Pods > 0
}

// mostLines is the maximum number of lines of a table, unless --output is wide.
const mostLines = 20

func (s *waitingShown) show(to io.Writer, wide bool) error {
	answer := s.answer
	if len(answer.Waiting)+len(answer.NotTried) == 0 {
		_, err := io.WriteString(to, "Nothing waits.\n")
		return err
	}
	rows := [][]string{{"PLACE", "WORK", "QUEUE", "PRIORITY", "PODS", "SINCE", "WHY"}}
	lines := s.lines(slices.Concat(answer.Waiting, answer.NotTried), wide)
	more := 0
	if !wide && len(lines) > mostLines {
		more, lines = len(lines)-mostLines, lines[:mostLines]
	}
	if err := table(to, append(rows, lines...)); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(to, "%d more, see -o wide.\n", more)
	}
	_, err := fmt.Fprintf(to, "%s can be tried, and %d cannot yet.\n", plural(len(answer.Waiting), "workload"), len(answer.NotTried))
	return err
}

// lines returns the lines of a table. If wide is false, pods of one owner with the same message
// share a line.
func (s *waitingShown) lines(all []waitingRow, wide bool) [][]string {
	type same struct {
		owner, queue, why string
		priority          int32
	}
	at := make(map[same]int)
	merged, rows := make([]waitingRow, 0, len(all)), [][]string(nil)
	for _, row := range all {
		key := same{s.owners[row.Work], row.Queue, row.Why, row.Priority}
		i, known := at[key]
		if wide || key.owner == "" || !known {
			if key.owner != "" {
				at[key] = len(merged)
			}
			merged = append(merged, row)
			continue
		}
		merged[i].Pods += row.Pods
		merged[i].Work = key.owner
		if row.Since.Before(merged[i].Since) {
			merged[i].Since = row.Since
		}
	}
	for _, row := range merged {
		place, why := "-", row.Why
		if row.Place > 0 {
			place = strconv.Itoa(row.Place)
		}
		if short, _, cut := strings.Cut(why, " ("); cut && !wide {
			why = short
		}
		// A redacted snapshot has reasons but no messages.
		if why = strings.TrimPrefix(row.Reason+": "+why, ": "); row.Why == "" {
			why = row.Reason
		}
		rows = append(rows, []string{
			place, row.Work, orDash(row.Queue), strconv.Itoa(int(row.Priority)), strconv.Itoa(row.Pods), row.Since.Format(time.RFC3339), orDash(why),
		})
	}
	return rows
}
