package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// whyAnswer is the answer of why.
type whyAnswer struct {
	typed
	Subject string `json:"subject"`
	// State is Pending, Running, Leaving, Finished or Gone.
	State string `json:"state"`
	// Pending, Running and Leaving count the pods.
	Pending int `json:"pending"`
	Running int `json:"running"`
	Leaving int `json:"leaving"`
	// Decision is what the next decision would say of the pending pods, and Line where they stand.
	Decision *whatif.Step `json:"decision,omitempty"`
	Line     *whatif.Line `json:"line,omitempty"`
	// Remedies are single changes that would help, each verified by a decision; Tried is false where they were not looked for.
	Remedies []whatif.Remedy `json:"remedies,omitempty"`
	Tried    bool            `json:"tried"`
	// Took are the preemptions by which it has what it has, and TakenBy those that it fell victim to, newest first.
	Took    []happening `json:"took,omitempty"`
	TakenBy []happening `json:"takenBy,omitempty"`
	// Untold is why the past could not be asked about; empty where it could.
	Untold string `json:"untold,omitempty"`
}

func (a *asking) whyCommand() *cobra.Command {
	remedies := true
	cmd := &cobra.Command{
		Use:   "why POD|job/NAME|podgroup/NAME",
		Short: "Say why work is pending, what it took, or who took it",
		Long: `Say why work is pending: what is missing and on how many nodes, what protects those who have it and until when,
its place in line, and which single change would let it run. Each change that is named has been tried by a decision of the
scheduler's own code, with just that changed. Of work that runs, say what it took; of work that has gone, who took it and by
which rule, as far as statuses and events still tell.`,
		Example: "  kubectl reprieve why train-0\n  kubectl reprieve why podgroup/train -n team-a -o wide",
		Args:    exactly("POD|job/NAME|podgroup/NAME"),
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
			answer, err := a.why(cmd.Context(), shown, about, remedies)
			shown.end()
			if err != nil {
				return err
			}
			return a.write(answer, func(to io.Writer, wide bool) error {
				a.showWhy(to, answer, wide)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&remedies, "remedies", true, "Look for single changes that would help. Each takes a decision.")
	return cmd
}

// why answers the question.
func (a *asking) why(ctx context.Context, shown *progress, about *subject, remedies bool) (*whyAnswer, error) {
	asked, err := a.gather(ctx, shown)
	if err != nil {
		return nil, err
	}
	exists, err := about.find(asked)
	if err != nil {
		return nil, err
	}
	answer := &whyAnswer{
		typed:   typed{APIVersion: answerVersion, Kind: "Why", Taken: asked.objects.Taken.UTC()},
		Subject: about.name(),
		Pending: len(about.pending()), Running: len(about.placed()), Leaving: len(about.leaving()),
	}
	if answer.State = stateOf(answer, exists); answer.State == "Pending" {
		if err := a.decideWhy(ctx, shown, asked, about, answer, remedies); err != nil {
			return nil, err
		}
	}
	shown.say("looking for preemptions")
	all, err := a.preemptions(ctx, asked.objects, "")
	if err != nil && answer.Decision == nil {
		return nil, err
	}
	if err != nil {
		answer.Untold = oneLine(err)
	}
	for _, h := range all {
		switch {
		case about.is(h.Preemptor):
			answer.Took = append(answer.Took, h)
		case about.is(h.Victim):
			answer.TakenBy = append(answer.TakenBy, h)
		}
	}
	if !exists && len(answer.TakenBy) == 0 && len(answer.Took) == 0 {
		return nil, notFound(fmt.Errorf("%s does not exist, and nothing tells of its preemption", about.name()))
	}
	return answer, nil
}

func stateOf(answer *whyAnswer, exists bool) string {
	switch {
	case !exists:
		return "Gone"
	case answer.Pending > 0:
		return "Pending"
	case answer.Leaving > 0:
		return "Leaving"
	case answer.Running > 0:
		return "Running"
	default:
		return "Finished"
	}
}

// is reports whether a name in a happening is the subject's, that of its group, or of one of its pods.
func (s *subject) is(name string) bool {
	if name == "" {
		return false
	}
	if name == s.name() || s.group != nil && name == "podgroup "+s.group.Namespace+"/"+s.group.Name {
		return true
	}
	for _, pod := range s.pods {
		if s.has(pod) && name == "pod "+pod.Namespace+"/"+pod.Name {
			return true
		}
	}
	// The pods of a Job that have gone are known by their names.
	return s.kind == "Job" && strings.HasPrefix(name, "pod "+s.key.String()+"-")
}

// decideWhy asks what the next decision would say.
func (a *asking) decideWhy(ctx context.Context, shown *progress, asked *question, about *subject, answer *whyAnswer, remedies bool) error {
	pods := about.pending()
	cluster, err := whatif.New(ctx, asked.objects, asked.cfg)
	if err != nil {
		return err
	}
	defer cluster.Close()
	shown.say("deciding")
	key := podKey(pods[0])
	step, err := cluster.Decide(ctx, key)
	if err != nil {
		return err
	}
	answer.Decision = &step
	if line, err := cluster.LineOf(pods[0]); err == nil && line.Of > 0 {
		answer.Line = &line
	}
	if !remedies || step.Outcome != core.Infeasible && step.Outcome != whatif.Held || step.Reason == "OtherScheduler" {
		return nil
	}
	if about.group == nil || len(step.Pods) == 1 {
		// Of pods that are decided on one by one, the first stands for all.
		pods = pods[:1]
	}
	answer.Tried = true
	answer.Remedies, err = whatif.Search(ctx, asked.objects, asked.cfg, pods, about.group, func(decided int) {
		shown.say("trying changes: %d decisions so far", decided)
	})
	return err
}

// showWhy shows an answer of why to people.
func (a *asking) showWhy(to io.Writer, answer *whyAnswer, wide bool) {
	colour := map[string]string{"Pending": fair, "Running": good}[answer.State]
	if colour == "" {
		colour = bad
	}
	fmt.Fprintf(to, "%s: %s", a.paint(bold, answer.Subject), a.paint(colour, strings.ToLower(answer.State)))
	if answer.Pending+answer.Running+answer.Leaving > 1 {
		fmt.Fprintf(to, " (%d pending, %d with a node, %d leaving)", answer.Pending, answer.Running, answer.Leaving)
	}
	fmt.Fprintln(to)
	if answer.Decision != nil {
		a.showDecision(to, answer, wide)
	}
	for _, h := range answer.Took {
		fmt.Fprintf(to, "Took: %s, %s%s%s\n", h.Victim, h.Time.Format(time.RFC3339), ruleOf(&h), messageOf(&h))
	}
	for _, h := range answer.TakenBy {
		by := h.Preemptor
		if by == "" {
			by = "the scheduler"
		}
		fmt.Fprintf(to, "Taken: %s by %s, %s%s%s\n", h.Victim, by, h.Time.Format(time.RFC3339), ruleOf(&h), messageOf(&h))
	}
	if answer.Untold != "" {
		fmt.Fprintf(to, "Took: not known, %s.\n", answer.Untold)
	}
	if answer.State == "Running" && len(answer.Took) == 0 {
		fmt.Fprintln(to, "Took: nothing that statuses or events still tell of.")
	}
}

func ruleOf(h *happening) string {
	if h.Rule == "" {
		return ""
	}
	return ", rule " + h.Rule
}

func messageOf(h *happening) string {
	if h.Message == "" {
		return ""
	}
	return ": " + h.Message
}

func (a *asking) showDecision(to io.Writer, answer *whyAnswer, wide bool) {
	step := answer.Decision
	switch step.Outcome {
	case core.Fits:
		fmt.Fprintf(to, "Next: there is room now; %s.\n", step.Message)
	case core.Waits:
		fmt.Fprintf(to, "Next: it waits for pods that are leaving; %s.\n", step.Message)
	case core.Preempts:
		fmt.Fprintf(to, "Next: it preempts; %s.\n", step.Message)
		for _, v := range step.Victims {
			fmt.Fprintf(to, "  - %s: priority %d, rule %s, %s GPU-hours\n", unitName(v.Namespace, v.Name, v.Group), v.Priority, v.Rule, hours(v.Cost.GPUHours))
		}
	default:
		fmt.Fprintf(to, "Missing: %s.\n", step.Message)
	}
	most := 5
	if wide {
		most = len(step.Protected)
	}
	for i, p := range step.Protected {
		if i == most {
			fmt.Fprintf(to, "Protected: %d more, see -o wide.\n", len(step.Protected)-most)
			break
		}
		fmt.Fprintf(to, "Protected: %s by %s.\n", unitName(p.Namespace, p.Name, p.Group), protection(&p))
	}
	if step.RetryAt != nil {
		fmt.Fprintf(to, "Not before: %s, when protections have ended.\n", step.RetryAt.Format(time.RFC3339))
	}
	if l := answer.Line; l != nil {
		fmt.Fprintf(to, "In line: %d of %d by priority and age", l.Place, l.Of)
		if l.Queue != "" {
			fmt.Fprintf(to, ", %d of %d in queue %s", l.PlaceInQueue, l.OfQueue, l.Queue)
		}
		if len(l.Before) > 0 {
			fmt.Fprintf(to, "; right before it: %s", strings.Join(l.Before, ", "))
		}
		fmt.Fprintln(to, ".")
	}
	for _, r := range answer.Remedies {
		fmt.Fprintf(to, "Would help: %s (%s", r.Change, r.Message)
		if r.Cost.Pods > 0 {
			fmt.Fprintf(to, "; costs %s, %s GPU-hours", plural(r.Cost.Pods, "pod"), hours(r.Cost.GPUHours))
		}
		fmt.Fprintln(to, ").")
	}
	if answer.Tried && len(answer.Remedies) == 0 {
		fmt.Fprintln(to, "Would help: no single change that was tried (time, minCount, a taint, cordons, nodes, a limit or quota, priority).")
	}
}
