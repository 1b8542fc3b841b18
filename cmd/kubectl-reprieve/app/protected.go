package app

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// protectedAnswer is the answer of protected.
type protectedAnswer struct {
	typed
	Protected []protectedRow `json:"protected"`
}

// protectedRow is one protection of one unit.
type protectedRow struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Priority  int32  `json:"priority"`
	Queue     string `json:"queue,omitempty"`
	Pods      int    `json:"pods"`
	// By is StaticPod, MinRuntime or PreemptionToleration.
	By string `json:"by"`
	// From says from which preemptors.
	From string `json:"from"`
	// Until is absent where there is no end.
	Until *time.Time `json:"until,omitempty"`
}

func (a *asking) protectedCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "protected",
		Short: "Show who is protected from preemption, by what, and until when",
		Long: `Show which work that runs is protected from preemption, by what, from whom and until when: the longest of its
min-runtimes, the toleration of its PriorityClass, or that it is a static pod. Work that is not listed is protected by
nothing but its priority and its queue's share.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, err := a.namespace()
			if err != nil {
				return err
			}
			if all {
				namespace = ""
			}
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.protected(cmd.Context(), shown, namespace)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, wide bool) error { return showProtected(to, answer, wide) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "In all namespaces.")
	return cmd
}

func (a *asking) protected(ctx context.Context, shown *progress, namespace string) (*protectedAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	guards, err := cluster.Guards()
	if err != nil {
		return nil, err
	}
	answer := &protectedAnswer{typed: typed{APIVersion: answerVersion, Kind: "Protected", Taken: asked.objects.Taken.UTC()}}
	for i := range guards {
		if g := &guards[i]; namespace == "" || g.Namespace == namespace {
			answer.Protected = append(answer.Protected, guardRow(g))
		}
	}
	return answer, nil
}

func guardRow(g *scheduler.Guard) protectedRow {
	row := protectedRow{Kind: "Pod", Namespace: g.Namespace, Name: g.Name, Priority: g.Priority, Queue: g.Queue, Pods: g.Pods, By: string(g.Rule)}
	if g.Group {
		row.Kind = "PodGroup"
	}
	if !g.Until.IsZero() {
		until := g.Until.UTC()
		row.Until = &until
	}
	switch g.Rule {
	case core.RulePreemptMinRuntime:
		row.By, row.From = "MinRuntime", "some preemptor at least; of others it may end earlier"
	case core.RuleStaticPod:
		row.From = "all"
	default:
		row.From = fmt.Sprintf("priorities below %d", g.Below)
	}
	return row
}

func showProtected(to io.Writer, answer *protectedAnswer, wide bool) error {
	if len(answer.Protected) == 0 {
		_, err := io.WriteString(to, "Nothing that runs is protected.\n")
		return err
	}
	rows := [][]string{{"WORK", "PRIORITY", "BY", "UNTIL", "FROM"}}
	if wide {
		rows[0] = append(rows[0], "QUEUE", "PODS")
	}
	for i := range answer.Protected {
		p := &answer.Protected[i]
		until := "no end"
		if p.Until != nil {
			until = fmt.Sprintf("%s (%s)", p.Until.Format(time.RFC3339), p.Until.Sub(answer.Taken).Round(time.Second))
		}
		row := []string{unitName(p.Namespace, p.Name, p.Kind == "PodGroup"), strconv.Itoa(int(p.Priority)), p.By, until, p.From}
		if wide {
			row = append(row, p.Queue, strconv.Itoa(p.Pods))
		}
		rows = append(rows, row)
	}
	return table(to, rows)
}
