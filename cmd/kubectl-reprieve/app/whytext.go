package app

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/escape"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// The first words of the lines that why prints. docs/troubleshooting.md explains each.
const (
	saysBlocked   = "Blocked"
	saysTold      = "Told"
	saysNotSeen   = "Not seen"
	saysNext      = "Next"
	saysMissing   = "Missing"
	saysProtected = "Protected"
	saysNotBefore = "Not before"
	saysInLine    = "In line"
	saysWouldHelp = "Would help"
	saysTook      = "Took"
	saysTaken     = "Taken"
	saysLost      = "Lost"
	saysCascade   = "Cascade"
	saysStayed    = "Stayed"
	saysDomain    = "Domain"
	saysTree      = "Tree"
	saysPart      = "Part"
)

// fewShown is the maximum length of a list of units in an answer, unless --output is wide.
const fewShown = 5

// showWhy prints an answer of why as text.
func (a *asking) showWhy(to io.Writer, answer *whyAnswer, wide bool) {
	state := strings.ToLower(answer.State)
	if answer.State == stateEmpty {
		state = "no pods"
	}
	colour := map[string]string{"Pending": fair, "Running": good}[answer.State]
	if colour == "" {
		colour = bad
	}
	fmt.Fprintf(to, "%s: %s", a.paint(bold, answer.Subject), a.paint(colour, state))
	if answer.Pending+answer.Running+answer.Leaving > 1 {
		gated := ""
		if answer.Gated > 0 {
			gated = fmt.Sprintf(", %d of them gated", answer.Gated)
		}
		fmt.Fprintf(to, " (%d pending%s, %d with a node, %d leaving)", answer.Pending, gated, answer.Running, answer.Leaving)
	}
	fmt.Fprintln(to)
	for _, b := range answer.Blocked {
		fmt.Fprintf(to, "%s: %s\n", saysBlocked, b.text())
	}
	for _, t := range answer.Told {
		fmt.Fprintf(to, "%s: %s\n", saysTold, t.text())
	}
	if answer.Tree != nil {
		answer.Tree.show(to, wide)
	}
	if answer.Decision != nil {
		showDecision(to, answer, wide)
	}
	for _, h := range answer.Took {
		fmt.Fprintf(to, "%s: %s, %s%s%s%s\n", saysTook, h.Victim, h.Time.Format(time.RFC3339), ruleOf(&h), sourceOf(&h), messageOf(&h))
	}
	for _, h := range answer.TakenBy {
		by := h.Preemptor
		if by == "" {
			by = "the scheduler"
		}
		fmt.Fprintf(to, "%s: %s by %s, %s%s%s%s\n", saysTaken, h.Victim, by, h.Time.Format(time.RFC3339), ruleOf(&h), sourceOf(&h), messageOf(&h))
	}
	for i := range answer.Choices {
		showChoice(to, &answer.Choices[i], wide)
	}
	if answer.Unrecorded != "" {
		fmt.Fprintf(to, "%s: %s.\n", saysStayed, answer.Unrecorded)
	}
	if len(answer.NotSeen) > 0 {
		fmt.Fprintf(to, "%s: %s, which you may not list, so nothing was decided; ask for the ClusterRole reprieve-planner.\n", saysNotSeen, strings.Join(answer.NotSeen, ", "))
	}
	if answer.Untold != "" {
		fmt.Fprintf(to, "%s: not known, %s.\n", saysTook, answer.Untold)
	}
	if answer.State == stateRunning && len(answer.Took) == 0 && answer.Untold == "" {
		fmt.Fprintf(to, "%s: nothing that statuses or events still tell of.\n", saysTook)
	}
}

func ruleOf(h *happening) string {
	if h.Rule == "" {
		return ""
	}
	return ", rule " + h.Rule
}

// sourceOf returns the remark on the source of a happening that only an event reports. For other
// sources, it returns "".
func sourceOf(h *happening) string {
	if h.Source != sourceEvent {
		return ""
	}
	return ", " + accordingToEvent
}

func messageOf(h *happening) string {
	if h.Message == "" {
		return ""
	}
	return ": " + escape.Line(h.Message)
}

// showChoice prints a decision that evicted the work: the other victims, the lost work, and the
// units that were not evicted.
func showChoice(to io.Writer, c *choice, wide bool) {
	if len(c.With) > 0 {
		fmt.Fprintf(to, "%s with it: %s.\n", saysTaken, strings.Join(c.With, ", "))
	}
	if c.LostInAll > 0 {
		fmt.Fprintf(to, "%s: %s device-hours of its own work, %s in all.\n", saysLost, hours(c.Lost), hours(c.LostInAll))
	}
	if c.Cascade != nil {
		fmt.Fprintf(to, "%s: %s\n", saysCascade, cascadeText(c.Cascade))
	}
	for i, s := range c.Stayed {
		if i == fewShown && !wide {
			fmt.Fprintf(to, "%s: %d more that the record names, see -o wide.\n", saysStayed, len(c.Stayed)-i)
			break
		}
		on := ""
		if s.Node != "" {
			on = " on " + s.Node
		}
		fmt.Fprintf(to, "%s: %s (priority %s%s), %s.\n", saysStayed, s.Work, core.ToldPriority(s.Priority, s.RaisedBy), on, s.Because)
	}
	if c.Unnamed > 0 {
		fmt.Fprintf(to, "%s: %d more that might have been taken, which the record does not name.\n", saysStayed, c.Unnamed)
	}
}

// showVictims prints the victims of a decision, each with its cost. If wide is false, victims of
// one owner with the same cost share a line.
func showVictims(to io.Writer, step *whatif.Step, of owners, wide bool, cost func(*whatif.Victim) string) {
	all := make([]mention, len(step.Victims))
	for i := range step.Victims {
		v := &step.Victims[i]
		all[i] = mention{unitName(v.Namespace, v.Name, v.Group), fmt.Sprintf("priority %s, rule %s, %s", core.ToldPriority(v.Priority, v.RaisedBy), v.Rule, cost(v))}
	}
	if !wide {
		all = of.grouped(all)
	}
	for _, m := range all {
		fmt.Fprintf(to, "  - %s: %s\n", m.unit, m.said)
	}
	showBrokenGangs(to, step)
	showByPriority(to, step)
}

// showByPriority prints the cost of the victims that priorities alone would select. It prints
// nothing if they are the same victims.
func showByPriority(to io.Writer, step *whatif.Step) {
	if other := step.ByPriority; other != nil {
		fmt.Fprintf(to, "  By priorities alone: %s, %s GPU-hours instead of %s, %s GPU-hours.\n",
			plural(other.Pods, "pod"), hours(other.GPUHours), plural(step.Cost.Pods, "pod"), hours(step.Cost.GPUHours))
	}
}

func showDecision(to io.Writer, answer *whyAnswer, wide bool) {
	step := answer.Decision
	switch step.Outcome {
	case core.Fits:
		fmt.Fprintf(to, "%s: there is room now; %s.\n", saysNext, step.Message)
	case core.Waits:
		fmt.Fprintf(to, "%s: it waits for pods that are leaving; %s.\n", saysNext, step.Message)
	case core.Preempts:
		fmt.Fprintf(to, "%s: it preempts; %s.\n", saysNext, step.Message)
		showVictims(to, step, answer.owners, wide, lossOf)
	default:
		fmt.Fprintf(to, "%s: %s.\n", saysMissing, step.Message)
	}
	for _, note := range step.DomainNotes {
		fmt.Fprintf(to, "%s: %s.\n", saysDomain, note)
	}
	protected := make([]mention, len(step.Protected))
	for i, p := range step.Protected {
		protected[i] = mention{unitName(p.Namespace, p.Name, p.Group), protection(&p)}
	}
	shown, more := answer.owners.few(protected, wide)
	for _, m := range shown {
		fmt.Fprintf(to, "%s: %s by %s.\n", saysProtected, m.unit, m.said)
	}
	if more > 0 {
		fmt.Fprintf(to, "%s: %d more, see -o wide.\n", saysProtected, more)
	}
	if step.RetryAt != nil {
		fmt.Fprintf(to, "%s: %s, when protections have ended.\n", saysNotBefore, step.RetryAt.Format(time.RFC3339))
	}
	if l := answer.Line; l != nil {
		fmt.Fprintf(to, "%s: %d of %d by priority and age", saysInLine, l.Place, l.Of)
		if l.Queue != "" {
			fmt.Fprintf(to, ", %d of %d in queue %s", l.PlaceInQueue, l.OfQueue, l.Queue)
		}
		if len(l.Before) > 0 {
			fmt.Fprintf(to, "; right before it: %s", strings.Join(l.Before, ", "))
		}
		fmt.Fprintln(to, ".")
	}
	for _, r := range answer.Remedies {
		fmt.Fprintf(to, "%s: %s (%s", saysWouldHelp, r.Change, r.Message)
		if r.Cost.Pods > 0 {
			fmt.Fprintf(to, "; costs %s, %s GPU-hours", plural(r.Cost.Pods, "pod"), hours(r.Cost.GPUHours))
		}
		if r.ByAdministrators {
			fmt.Fprint(to, "; takes an administrator")
		}
		fmt.Fprintln(to, ").")
	}
	if answer.Tried && len(answer.Remedies) == 0 {
		fmt.Fprintf(to, "%s: no single change that was tried (time, minCount, a taint, cordons, nodes, a limit or quota, priority).\n", saysWouldHelp)
	}
}
