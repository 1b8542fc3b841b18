package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/whatif"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// whenAnswer is the answer of the subcommand when.
type whenAnswer struct {
	typed
	Subject string `json:"subject"`
	// Placed describes the work if all its pods have a node. It is nil if some pods wait; then
	// Decision and Bounds describe the waiting pods.
	Placed *placedSince `json:"placed,omitempty"`
	// Gated is the number of pods with scheduling gates that Decision and Bounds leave out.
	Gated    int            `json:"gated,omitempty"`
	Decision *whatif.Step   `json:"decision,omitempty"`
	Bounds   *whatif.Bounds `json:"bounds,omitempty"`
	// BackOff describes a Job that waits before it creates pods again. It is nil for other work.
	BackOff *backOff `json:"backOff,omitempty"`
}

// placedSince is the number of pods with a node, and the time when the last of them got it. Since
// is zero if the time is not known.
type placedSince struct {
	Since time.Time `json:"since,omitzero"`
	Pods  int       `json:"pods"`
}

// sinceOf returns the number of the given pods, and the time when the last of them got a node.
func sinceOf(placed []*corev1.Pod) *placedSince {
	out := &placedSince{Pods: len(placed)}
	for _, pod := range placed {
		if at := preemptiontoleration.ScheduledAt(pod).UTC(); at.After(out.Since) {
			out.Since = at
		}
	}
	return out
}

func (a *asking) whenCommand() *cobra.Command {
	var with []string
	cmd := &cobra.Command{
		Use:   "when " + workArgument,
		Short: "Say when pending work starts, as far as anything is known",
		Long: `Show bounds for the start of pending work, each with its reason and never as a guess. The work does not start before
the protections in its way have ended. It starts at the latest when running pods have reached their activeDeadlineSeconds,
if no other work arrives. The start is unknown if the pods in the way declare no end. A decision of the scheduler's own
code verifies each bound. The deadlines come from pods and their Jobs. For a gang with topology levels, such as
racks, the command also shows the time when each domain has room, or the missing room.`,
		Example: "  kubectl reprieve when podgroup/train -n team-a",
		Args:    exactly(workArgument),

		ValidArgsFunction: a.completeWork,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := a.namespace()
			if err != nil {
				return err
			}
			about, err := parseSubject(args[0], namespace)
			if err != nil {
				return err
			}
			shown := newProgress(a.streams.ErrOut, a.clock)
			answer, err := a.when(cmd.Context(), shown, about, with)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, _ bool) error {
				a.showWhen(to, answer)
				return nil
			})
		},
	}
	cmd.Flags().StringArrayVar(&with, "with", nil, withUsage)
	return cmd
}

func (a *asking) when(ctx context.Context, shown *progress, about *subject, with []string) (*whenAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	if err := a.suppose(ctx, asked, with); err != nil {
		return nil, err
	}
	exists, err := about.find(asked)
	if err == nil {
		err = about.asOne()
	}
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, about.missing(asked.objects, "")
	case len(about.pending()) == 0 && len(about.placed()) > 0:
		return answerWhen(asked, about, &whenAnswer{Placed: sinceOf(about.placed())}), nil
	case len(about.pending()) == 0:
		answer, found, err := about.backsOff(asked.objects)
		if err != nil || found {
			return answerWhen(asked, about, answer), err
		}
		return nil, notFound(fmt.Errorf("%s has no pod that is pending", about.name()))
	}
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	key := podKey(about.pending()[0])
	step, err := cluster.Decide(ctx, key)
	if err != nil {
		return nil, err
	}
	if about.heldByGate(&step) {
		return answerWhen(asked, about, &whenAnswer{Decision: &step, Bounds: &whatif.Bounds{}}), nil
	}
	bounds, err := whatif.When(ctx, asked.objects, asked.cfg, key, &step, func(decided int) {
		shown.say("looking for ends: %d decisions so far", decided)
	})
	if err != nil {
		return nil, err
	}
	answer := &whenAnswer{Gated: about.gated(), Decision: &step, Bounds: bounds}
	if answer.Gated == len(about.pending()) {
		// All pending pods have scheduling gates, so the decision is about them.
		answer.Gated = 0
	}
	return answerWhen(asked, about, answer), nil
}

// answerWhen fills in the fields of an answer that do not depend on the decision.
func answerWhen(asked *question, about *subject, answer *whenAnswer) *whenAnswer {
	answer.typed = typed{APIVersion: answerVersion, Kind: "When", Taken: asked.objects.Taken.UTC()}
	answer.Subject = about.name()
	return answer
}

func (a *asking) showWhen(to io.Writer, answer *whenAnswer) {
	if p := answer.Placed; p != nil {
		since := ""
		if !p.Since.IsZero() {
			since = " since " + p.Since.Format(time.RFC3339)
		}
		fmt.Fprintf(to, "%s: has its place already, %s on nodes%s\n", a.paint(bold, answer.Subject), plural(p.Pods, "pod"), since)
		return
	}
	if b := answer.BackOff; b != nil {
		fmt.Fprintf(to, "%s: has no pods now: %s backs off after %s.\n", a.paint(bold, answer.Subject), b.Job, plural(int(b.Failures), "failure"))
		fmt.Fprintf(to, "New pods: at the latest %s; from then on, ask again.\n", b.Until.Format(time.RFC3339))
		return
	}
	b := answer.Bounds
	fmt.Fprintf(to, "%s: %s\n", a.paint(bold, answer.Subject), answer.Decision.Message)
	for _, note := range answer.Decision.DomainNotes {
		fmt.Fprintf(to, "%s: %s.\n", saysDomain, note)
	}
	if answer.Gated > 0 {
		fmt.Fprintf(to, "This leaves out %s behind scheduling gates.\n", plural(answer.Gated, "pod"))
	}
	if b.NotBefore != nil {
		fmt.Fprintf(to, "Not before %s: %s.\n", b.NotBefore.Format(time.RFC3339), b.BecauseOf)
	}
	if b.AtTheLatest != nil {
		fmt.Fprintf(to, "At the latest %s%s: %s.\n", b.AtTheLatest.UTC().Format(time.RFC3339), inDomains(b.In), b.Then)
	} else {
		fmt.Fprintf(to, "Unknown: %s.\n", whyUnknown(answer.Decision, b))
	}
	for i := range b.Levels {
		showLevel(to, &b.Levels[i])
	}
}

// whyUnknown returns the reason why the latest start time of the work is not known.
func whyUnknown(decision *whatif.Step, b *whatif.Bounds) string {
	switch {
	case decision.Outcome == whatif.Held && (decision.Reason != v1alpha1.ReasonQueueLimit || b.Endless+b.Unread == 0):
		return "the passage of time does not unblock it"
	case decision.Outcome == core.Waits:
		return "the pods that it waits for, or their ends, are unknown"
	case b.Unread > 0:
		return fmt.Sprintf("the Jobs of %s that run are unknown, and so are their ends: the Jobs are not in the snapshot, or you may not list jobs.batch", plural(b.Unread, "pod"))
	case b.Endless == 0:
		return "the end of running work frees no room for it"
	default:
		// The workload waits for the end of running pods, and some of these pods declare no end.
		return fmt.Sprintf("%d of the pods that run declare no end", b.Endless)
	}
}
