package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// The states of work in an answer of the subcommand why.
const (
	statePending  = "Pending"
	stateRunning  = "Running"
	stateLeaving  = "Leaving"
	stateFinished = "Finished"
	// stateGone is the state of work that does not exist, or that was evicted and has no pods.
	stateGone = "Gone"
	// stateEmpty is the state of other work without pods.
	stateEmpty = "Empty"
)

// whyAnswer is the answer of the subcommand why.
type whyAnswer struct {
	typed
	Subject string `json:"subject"`
	// State is Pending, Running, Leaving, Finished, Gone or Empty.
	State string `json:"state"`
	// Pending, Gated, Running and Leaving are numbers of pods. Gated counts the pending pods with
	// scheduling gates. Leaving counts the terminating pods.
	Pending int `json:"pending"`
	Gated   int `json:"gated,omitempty"`
	Running int `json:"running"`
	Leaving int `json:"leaving"`
	// Blocked lists conditions that block the work regardless of free room. If one condition causes
	// another, the cause comes first.
	Blocked []told `json:"blocked,omitempty"`
	// Told lists the messages of conditions and events about the work.
	Told []told `json:"told,omitempty"`
	// NotSeen lists the resources that the caller may not list. If it is not empty, there is no
	// decision.
	NotSeen []string `json:"notSeen,omitempty"`
	// Tree describes the tree of groups that the work is placed with; nil for other work.
	Tree *toldTree `json:"tree,omitempty"`
	// Decision is the next decision for the pending pods.
	Decision *whatif.Step `json:"decision,omitempty"`
	// Line is the position of the work in the scheduler's order.
	Line *whatif.Position `json:"line,omitempty"`
	// Remedies lists single changes that would help. A decision has verified each of them.
	Remedies []whatif.Remedy `json:"remedies,omitempty"`
	// Tried is true if the command searched for remedies.
	Tried bool `json:"tried"`
	// Took lists the preemptions by the work, newest first.
	Took []happening `json:"took,omitempty"`
	// TakenBy lists the preemptions that evicted the work, newest first.
	TakenBy []happening `json:"takenBy,omitempty"`
	// Choices lists the recorded decisions that evicted the work, with their alternatives, newest
	// first.
	Choices []choice `json:"choices,omitempty"`
	// Unrecorded is the reason why Choices is incomplete; empty if it is complete.
	Unrecorded string `json:"unrecorded,omitempty"`
	// Untold is the reason why past preemptions could not be read; empty if they were read.
	Untold string `json:"untold,omitempty"`

	// exists is true if some object of the work exists. enough is true if a gang has as many
	// members with a node as it needs.
	exists, enough bool
	// about is the work that the question is about.
	about *subject
	// owners names the creators of pods, to merge pods of one owner in lists.
	owners owners
}

// whyOptions are the flags of the subcommand why.
type whyOptions struct {
	remedies, watch bool
	record          recordSource
	// not is the value of the flag --not: the name of work that was not evicted. The field with
	// lists the files of the flag --with: objects that the decision assumes to exist.
	not  string
	with []string
	// other is the work that --not names; nil without --not.
	other *subject
}

// check validates the flags and parses the value of --not. It reads no objects.
func (o *whyOptions) check(a *asking) error {
	switch {
	case o.watch && a.snapshot != "":
		return usage(errors.New("--watch follows a cluster, and a snapshot stays as it is"))
	case o.watch && slices.Contains(o.record.files, "-"), o.watch && slices.Contains(o.with, "-"):
		return usage(errors.New("--watch reads files again and again, and standard input only once"))
	case o.not != "" && !o.record.named():
		return usage(errors.New("--not goes by the scheduler's record: give --log FILE, or --scheduler URL"))
	}
	if o.not != "" {
		namespace, err := a.namespace()
		if err != nil {
			return err
		}
		if o.other, err = parseSubject(o.not, namespace); err != nil {
			return fmt.Errorf("--not %w", err)
		}
	}
	return o.record.check()
}

func (a *asking) whyCommand() *cobra.Command {
	options := whyOptions{remedies: true}
	cmd := &cobra.Command{
		Use:   "why " + workArgument,
		Short: "Show why work is pending, its victims, or its preemptor",
		Long: `Show why work is pending: the missing resources and the number of nodes that lack them, and the protections of running
work with their ends. Show its place in the order, and single changes that would let it run. The scheduler's own code has tried each of these
changes with a decision. For running work, show its victims. For evicted work, show its preemptor and the rule, as far as statuses
and events still have them. With the scheduler's record (--log or --scheduler), also show the alternatives, and why they stayed.

Work is POD, or KIND/NAME with the kind ` + kindsInWords() + `. If several
PodGroups of the work wait, ask about each of them.

With --watch, continue until the work runs, and show the changes. The exit code is 0 once the work runs or has finished, 3 when it
is gone, and 130 when the command is interrupted.`,
		Example: "  kubectl reprieve why train-0\n  kubectl reprieve why podgroup/train -n team-a -o wide\n  kubectl reprieve why podgroup/train --watch\n" +
			"  kubectl reprieve why podgroup/batch --not pod/notebook --log decisions.jsonl",
		Args:              exactly(workArgument),
		ValidArgsFunction: a.completeWork,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := options.check(a); err != nil {
				return err
			}
			if options.watch {
				return a.watchWhy(cmd.Context(), args[0], &options)
			}
			answer, err := a.why(cmd.Context(), args[0], &options)
			if err != nil {
				return err
			}
			return a.writeWhy(answer)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&options.remedies, "remedies", true, "Look for single changes that would help. Each of them needs a decision.")
	flags.BoolVarP(&options.watch, "watch", "w", false, "Continue until the work runs or is gone, and show the changes.")
	flags.StringVar(&options.not, "not", "", "Of the alternatives, show only why this work stayed: POD or KIND/NAME. Needs --log or --scheduler.")
	flags.StringArrayVar(&options.with, "with", nil, withUsage)
	options.record.addFlags(flags)
	return cmd
}

func (a *asking) writeWhy(answer *whyAnswer) error {
	return a.write(answer, func(to io.Writer, wide bool) error {
		a.showWhy(to, answer, wide)
		return nil
	})
}

// why returns the answer about the work that name names, as POD or KIND/NAME.
func (a *asking) why(ctx context.Context, name string, options *whyOptions) (*whyAnswer, error) {
	namespace, err := a.namespace()
	if err != nil {
		return nil, err
	}
	about, err := parseSubject(name, namespace)
	if err != nil {
		return nil, err
	}
	shown := newProgress(a.streams.ErrOut, a.clock)
	defer shown.end()
	// Read the record first: if it cannot be read, the command fails before it lists the whole
	// cluster.
	records, err := a.records(ctx, &options.record)
	if err != nil {
		return nil, err
	}
	asked, err := a.gatherWhatMayBe(ctx, shown, namespace)
	if err != nil {
		return nil, err
	}
	if err := a.suppose(ctx, asked, options.with); err != nil {
		return nil, err
	}
	return a.whyOf(ctx, shown, asked, about, options, records)
}

func (a *asking) whyOf(ctx context.Context, shown *progress, asked *question, about *subject, options *whyOptions, records []decisionlog.Record) (*whyAnswer, error) {
	exists, err := about.find(asked)
	if err != nil {
		return nil, err
	}
	if err := about.asOne(); err != nil && len(asked.unseen) == 0 {
		return nil, err
	}
	if other := options.other; other != nil {
		// Do not fail if the work of --not no longer exists, because the record may still name it.
		if _, err := other.find(asked); err != nil && codeOf(err) != exitNotFound {
			return nil, err
		}
	}
	answer := &whyAnswer{
		typed:   typed{APIVersion: answerVersion, Kind: "Why", Taken: asked.objects.Taken.UTC()},
		Subject: about.name(), exists: exists, enough: about.hasEnough(), about: about,
		Pending: len(about.pending()), Gated: about.gated(), Running: len(about.placed()), Leaving: len(about.leaving()),
	}
	answer.Tree = about.tree()
	if answer.owners, err = ownersOf(asked.objects); err != nil {
		return nil, err
	}
	answer.State, answer.NotSeen, answer.Blocked = stateOf(answer, len(about.pods)), asked.unseen, about.blocked()
	switch {
	case len(asked.unseen) > 0:
		if answer.Told, err = a.toldOf(ctx, about); err != nil {
			answer.Untold = oneLine(err)
		}
		answer.Blocked = nil
	case answer.State == statePending:
		if err := a.decideWhy(ctx, shown, asked, about, answer, options); err != nil {
			return nil, err
		}
	}
	if err := a.addPreemptions(ctx, shown, asked, answer, records); err != nil {
		return nil, err
	}
	if answer.State == stateEmpty && len(answer.TakenBy) > 0 {
		answer.State = stateGone
	}
	if !exists && len(answer.TakenBy) == 0 && len(answer.Took) == 0 {
		return nil, about.missing(asked.objects, ", and nothing tells of its preemption")
	}
	choose(answer, about, options, records)
	return answer, nil
}

// addPreemptions fills in Took and TakenBy. If the preemptions cannot be read, it fills in Untold.
// It returns an error only if the answer has nothing else to show.
func (a *asking) addPreemptions(ctx context.Context, shown *progress, asked *question, answer *whyAnswer, records []decisionlog.Record) error {
	about := answer.about
	shown.say("looking for preemptions")
	all, err := a.preemptions(ctx, asked.objects, asked.namespace, records)
	if err != nil && answer.Decision == nil && len(answer.Told) == 0 && len(records) == 0 {
		return err
	}
	if err != nil {
		answer.Untold = oneLine(err)
		all = byRecord(records)
	}
	for _, h := range all {
		switch {
		case about.is(h.Preemptor):
			answer.Took = append(answer.Took, h)
		case about.isVictim(h.Victim, h.pods), about.is(h.memberOf):
			answer.TakenBy = append(answer.TakenBy, h)
		}
	}
	return nil
}

// choose fills in Choices and Unrecorded.
func choose(answer *whyAnswer, about *subject, options *whyOptions, records []decisionlog.Record) {
	answer.Choices = choicesOf(records, about)
	switch {
	case len(answer.TakenBy) == 0:
		if options.other != nil {
			answer.Unrecorded = "no source reports that " + about.name() + " was evicted"
		}
	case !options.record.named():
		answer.Unrecorded = "the alternatives are in the scheduler's record; give --log FILE, or --scheduler URL"
	case len(answer.Choices) == 0:
		answer.Unrecorded = fmt.Sprintf("the record does not have it (%s)", plural(len(records), "decision"))
	case options.other != nil:
		// Show only the newest decision.
		latest := &answer.Choices[0]
		latest.Stayed, answer.Unrecorded = latest.otherThan(options.other)
		latest.Unnamed, answer.Choices = 0, answer.Choices[:1]
	}
}

// stateOf returns the state of work. pods is the number of its pods.
func stateOf(answer *whyAnswer, pods int) string {
	switch {
	case !answer.exists:
		return stateGone
	case pods == 0:
		return stateEmpty
	case answer.Pending > 0:
		return statePending
	case answer.Leaving > 0:
		return stateLeaving
	case answer.Running > 0:
		return stateRunning
	default:
		return stateFinished
	}
}

// is reports whether a name in a happening belongs to the subject, one of its groups or one of its
// pods.
func (s *subject) is(name string) bool {
	if name == "" {
		return false
	}
	if name == s.name() || slices.ContainsFunc(s.all, func(pg *v1alpha1.PodGroup) bool { return name == groupName(keyOf(pg)) }) {
		return true
	}
	for unit := range s.units {
		if name == groupName(unit) {
			return true
		}
	}
	for _, pod := range s.pods {
		if s.has(pod) && name == "pod "+pod.Namespace+"/"+pod.Name {
			return true
		}
	}
	// Recognize a pod of a Job by its name, because the pod may no longer exist.
	return s.kind == kindJob && isPodOf("pod "+s.key.String(), name) || s.family != nil && s.family.hadPod(name)
}

// isPodOf reports whether a name has the form that the Job controller gives to pods of a Job. The
// form is the name of the Job, an index if the Job is indexed, and five random characters.
func isPodOf(job, name string) bool {
	rest, ok := strings.CutPrefix(name, job+"-")
	if index, random, has := strings.Cut(rest, "-"); has {
		if _, err := strconv.ParseUint(index, 10, 32); err != nil {
			return false
		}
		rest = random
	}
	return ok && len(rest) == 5 && !strings.Contains(rest, "-")
}

// decideWhy makes the next decision for the pending pods and adds it to the answer.
func (a *asking) decideWhy(ctx context.Context, shown *progress, asked *question, about *subject, answer *whyAnswer, options *whyOptions) error {
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
	if why := asked.whyUnwritten(pods[0]); why != "" && step.Outcome == whatif.Held {
		step.Message += ", and none can be made: " + why
	}
	if step.ByPriority, err = whatif.ByPriorityAlone(ctx, asked.objects, asked.cfg, key, pods[0].Spec.SchedulerName, &step); err != nil {
		return err
	}
	gated := about.heldByGate(&step)
	answer.Decision = &step
	if answer.Tree != nil && step.Outcome == core.Infeasible {
		err := answer.Tree.decideParts(ctx, asked, about, func(decided int) { shown.say("trying parts: %d decisions so far", decided) })
		if err != nil {
			return err
		}
	}
	if line, err := cluster.PositionOf(pods[0]); err == nil && line.Of > 0 {
		answer.Line = &line
	}
	if gated || !options.remedies || step.Outcome != core.Infeasible && step.Outcome != whatif.Held || step.Reason == "OtherScheduler" {
		return nil
	}
	if !about.isGang() || len(step.Pods) == 1 {
		// Take the first pod to represent all, because pods without a gang get decisions one by
		// one.
		pods = pods[:1]
	}
	answer.Tried = true
	answer.Remedies, err = whatif.Search(ctx, asked.objects, asked.cfg, pods, about.group, func(decided int) {
		shown.say("trying changes: %d decisions so far", decided)
	})
	a.reviewRemedies(ctx, answer.Remedies)
	return err
}
