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

// The states of the work in an answer of why.
const (
	statePending  = "Pending"
	stateRunning  = "Running"
	stateLeaving  = "Leaving"
	stateFinished = "Finished"
	// stateGone is the state of work that does not exist, or that was evicted and has no pods.
	// stateEmpty is the state of other work without pods.
	stateGone  = "Gone"
	stateEmpty = "Empty"
)

// whyAnswer is the answer of why.
type whyAnswer struct {
	typed
	Subject string `json:"subject"`
	// State is Pending, Running, Leaving, Finished, Gone or Empty.
	State string `json:"state"`
	// Pending, Running and Leaving count the pods. Gated counts the pending pods with scheduling
	// gates.
	Pending int `json:"pending"`
	Gated   int `json:"gated,omitempty"`
	Running int `json:"running"`
	Leaving int `json:"leaving"`
	// Blocked lists conditions that block the work regardless of free capacity, the cause first.
	Blocked []told `json:"blocked,omitempty"`
	// Told lists messages of conditions and events about the work. NotSeen lists the resources that
	// the caller has no permission to list. If NotSeen is not empty, no decision is computed.
	Told    []told   `json:"told,omitempty"`
	NotSeen []string `json:"notSeen,omitempty"`
	// Tree is the tree of groups that the work is placed with; absent for other work.
	Tree *toldTree `json:"tree,omitempty"`
	// Decision is the next decision for the pending pods, and Line their position in the order.
	Decision *whatif.Step     `json:"decision,omitempty"`
	Line     *whatif.Position `json:"line,omitempty"`
	// Remedies lists single changes that would help, each verified by a decision. Tried is false if
	// no remedies were searched for.
	Remedies []whatif.Remedy `json:"remedies,omitempty"`
	Tried    bool            `json:"tried"`
	// Took lists the preemptions by the work, and TakenBy the preemptions of the work, newest
	// first.
	Took    []happening `json:"took,omitempty"`
	TakenBy []happening `json:"takenBy,omitempty"`
	// Choices lists the recorded decisions that evicted the work, with their alternatives, newest
	// first. Unrecorded explains missing or incomplete decisions; empty if nothing is missing.
	Choices    []choice `json:"choices,omitempty"`
	Unrecorded string   `json:"unrecorded,omitempty"`
	// Untold is the reason why past preemptions could not be read; empty if they could.
	Untold string `json:"untold,omitempty"`

	// exists is true if some object of the work exists. enough is true if as many pods as the work
	// needs have a node.
	exists, enough bool
	// about is the work in question.
	about *subject
	// owners names the objects that made the pods of lists.
	owners owners
}

// whyOptions are the flags of why.
type whyOptions struct {
	remedies, watch bool
	record          recordSource
	// not names work that was not evicted, or "" for all such work. with lists manifests of objects
	// to decide with.
	not  string
	with []string
	// other is the work that not names; nil for all work.
	other *subject
}

// check validates the flags before anything is read, and parses the name in not.
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

// why returns the answer for POD or KIND/NAME.
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
	// Report an unreadable record before reading the whole cluster.
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
		// Work that no longer exists may still be in the record.
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

// addPreemptions adds the preemptions by the work and of the work. It returns an error if there is
// no other information about the work either.
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

// choose fills in the alternatives of the decisions that evicted the work.
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
		// The newest decision counts.
		latest := &answer.Choices[0]
		latest.Stayed, answer.Unrecorded = latest.otherThan(options.other)
		latest.Unnamed, answer.Choices = 0, answer.Choices[:1]
	}
}

// stateOf returns the state of work with the given number of pods.
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

// is reports whether a name in a happening belongs to the subject, to one of its groups, or to one
// of its pods.
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
	// Pods of a Job that no longer exist are recognized by their names.
	return s.kind == kindJob && isPodOf("pod "+s.key.String(), name) || s.family != nil && s.family.hadPod(name)
}

// isPodOf reports whether the Job controller gives a name to pods of a Job. Such a name has the
// name of the Job, an index if the pods have one, and five random characters.
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

// decideWhy adds the next decision to the answer.
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
		// If pods get decisions one by one, the first pod represents all.
		pods = pods[:1]
	}
	answer.Tried = true
	answer.Remedies, err = whatif.Search(ctx, asked.objects, asked.cfg, pods, about.group, func(decided int) {
		shown.say("trying changes: %d decisions so far", decided)
	})
	a.reviewRemedies(ctx, answer.Remedies)
	return err
}
