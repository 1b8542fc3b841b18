package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// protectedAnswer is the answer of the subcommand protected.
type protectedAnswer struct {
	typed
	// Subject is the work that the question names; "" for all work.
	Subject   string         `json:"subject,omitempty"`
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
	// By is the rule that protects the unit. "MinRuntime" stands for all min-runtimes of the unit,
	// and the row is about the longest.
	By string `json:"by"`
	// From describes the preemptors that the unit is protected from.
	From string `json:"from"`
	// Profiles lists the profiles whose preemptors respect the protection. It is absent if all
	// profiles do.
	Profiles []string `json:"profiles,omitempty"`
	// Until is the end of the protection; absent if it has no end.
	Until *time.Time `json:"until,omitempty"`
}

func (a *asking) protectedCommand() *cobra.Command {
	all, from := false, false
	cmd := &cobra.Command{
		Use:   "protected [" + workArgument + "]",
		Short: "Show protected work, with the rule and the end of its protection",
		Long: `Show which running work is protected from preemption: the rule, the preemptors that it applies to, and its end. Of
several protections, the longest is shown: a min-runtime, the toleration of the PriorityClass, or that the pod is static. Other
work is protected only by its priority and its queue's share. The min-runtimes of the work's own profile apply. If several
profiles differ on tolerations, a line names the profiles of these preemptors. With a name, show one piece of work.

With a name and --from, show the workloads that could preempt that work now. These are the waiting workloads whose next
decision would evict it.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("%s takes one argument at most, and got %q", cmd.CommandPath(), args))
			}
			return nil
		},
		ValidArgsFunction: a.completeWork,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := a.namespace()
			if err != nil {
				return err
			}
			if all && len(args) > 0 {
				return usage(errors.New("a name and --all-namespaces do not go together"))
			}
			if all {
				namespace = ""
			}
			var about *subject
			if len(args) > 0 {
				if about, err = parseSubject(args[0], namespace); err != nil {
					return err
				}
			}
			shown := newProgress(a.streams.ErrOut, a.clock)
			if from {
				if about == nil {
					return usage(errors.New("--from asks about one piece of work: name it"))
				}
				threats, err := a.threats(cmd.Context(), shown, about)
				shown.end()
				if err != nil {
					return err
				}
				return a.write(threats, func(to io.Writer, _ bool) error { return showThreats(to, threats) })
			}
			answer, err := a.protected(cmd.Context(), shown, namespace, about)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, wide bool) error { return showProtected(to, answer, wide) })
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "In all namespaces; not with a name.")
	cmd.Flags().BoolVar(&from, "from", false, "Of one piece of work, show which work that waits would stop it by the next decision.")
	return cmd
}

// protected returns the protections of the work in about. If about is nil, it returns the
// protections of all work in a namespace; in all namespaces, if namespace is "".
func (a *asking) protected(ctx context.Context, shown *progress, namespace string, about *subject) (*protectedAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	answer := &protectedAnswer{
		typed: typed{APIVersion: answerVersion, Kind: "Protected", Taken: asked.objects.Taken.UTC()}, Protected: []protectedRow{},
	}
	if about != nil {
		answer.Subject = about.name()
		if err := about.findRunning(asked); err != nil {
			return nil, err
		}
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
	for i := range guards {
		g := &guards[i]
		if about != nil && about.is(unitName(g.Namespace, g.Name, g.Group)) || about == nil && (namespace == "" || g.Namespace == namespace) {
			answer.Protected = append(answer.Protected, guardRow(g))
		}
	}
	return answer, nil
}

func guardRow(g *whatif.Guard) protectedRow {
	row := protectedRow{
		Kind: "Pod", Namespace: g.Namespace, Name: g.Name, Priority: g.Priority, Queue: g.Queue, Pods: g.Pods, By: string(g.Rule), Profiles: g.Profiles,
	}
	if g.Group {
		row.Kind = kindPodGroup
	}
	if composite, ok := gang.CompositeOf(types.NamespacedName{Namespace: g.Namespace, Name: g.Name}); ok {
		row.Kind, row.Name = kindComposite, composite.Name
	}
	if !g.Until.IsZero() {
		until := g.Until.UTC()
		row.Until = &until
	}
	switch {
	case g.Rule == core.RulePreemptMinRuntime:
		row.By, row.From = "MinRuntime", "some preemptor at least; of others it may end earlier"
	case g.Below != nil:
		row.From = fmt.Sprintf("priorities below %d", *g.Below)
	default:
		row.From = "all"
	}
	return row
}

func showProtected(to io.Writer, answer *protectedAnswer, wide bool) error {
	if len(answer.Protected) == 0 && answer.Subject != "" {
		_, err := fmt.Fprintf(to, "%s: nothing protects it but its priority and its queue's share.\n", answer.Subject)
		return err
	}
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
		from := p.From
		if len(p.Profiles) > 0 {
			from = "only of " + strings.Join(p.Profiles, ", ") + ": " + from
		}
		row := []string{strings.ToLower(p.Kind) + " " + p.Namespace + "/" + p.Name, strconv.Itoa(int(p.Priority)), p.By, until, from}
		if wide {
			row = append(row, p.Queue, strconv.Itoa(p.Pods))
		}
		rows = append(rows, row)
	}
	return table(to, rows)
}
