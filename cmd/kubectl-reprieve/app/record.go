package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/report"
)

// recordSource is the source of the scheduler's record of decisions: files, or the scheduler
// itself. The zero value is no source.
type recordSource struct {
	files     []string
	scheduler schedulerEndpoint
}

// addFlags adds the flags of the source.
func (r *recordSource) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&r.files, "log", nil, "A file of the scheduler's --decision-log to go by as well, again for more; - for standard input.")
	r.scheduler.addFlags(flags)
}

// named reports whether the flags name a source.
func (r *recordSource) named() bool { return len(r.files) > 0 || r.scheduler.url != "" }

// check returns an error if the flags name two sources.
func (r *recordSource) check() error {
	if len(r.files) > 0 && r.scheduler.url != "" {
		return usage(errors.New("--log and --scheduler: name one of the two"))
	}
	return nil
}

// records returns the decisions of a record, each once, newest first. It returns none without a
// source.
func (a *asking) records(ctx context.Context, from *recordSource) ([]decisionlog.Record, error) {
	var all []decisionlog.Record
	var nothing error
	for _, name := range from.files {
		read, err := a.readRecords(name)
		if err != nil && !isEmpty(err) {
			return nil, err
		}
		nothing = cmp.Or(nothing, err)
		all = append(all, read...)
	}
	if len(all) == 0 && nothing != nil {
		return nil, nothing
	}
	if from.scheduler.url != "" {
		client, where, err := a.schedulerClient(from.scheduler)
		if err != nil {
			return nil, err
		}
		if all, _, err = askScheduler(ctx, client, where, report.Beside{}); err != nil {
			return nil, err
		}
	}
	// If several lines are about one decision, the line with the outcome counts.
	slices.SortStableFunc(all, func(a, b decisionlog.Record) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Process, b.Process), cmp.Compare(b.Sequence, a.Sequence), b.Result.Time.Compare(a.Result.Time))
	})
	return slices.CompactFunc(all, func(a, b decisionlog.Record) bool { return a.Process == b.Process && a.Sequence == b.Sequence }), nil
}

func (a *asking) readRecords(name string) ([]decisionlog.Record, error) {
	from, end, err := a.open(name)
	if err != nil {
		return nil, usage(err)
	}
	defer end()
	records, _, err := report.ReadRecords(filepath.Base(name), from, report.Beside{})
	return records, ofLog(name, err)
}

// ofLog returns the error for a file that should be a decision log. The error has the name of the
// file as the user wrote it.
func ofLog(name string, err error) error {
	var empty *report.EmptyError
	if errors.As(err, &empty) {
		return usage(fmt.Errorf("%s %w", name, err))
	}
	return err
}

// isEmpty reports whether a file may be a decision log, although it has no decision. The log of a
// standby is empty, and so is the log of a scheduler that has decided nothing yet.
func isEmpty(err error) bool {
	var empty *report.EmptyError
	return errors.As(err, &empty) && empty.First == nil
}

// happened reports whether the victims of a decision were evicted, or are being evicted.
func happened(r *decisionlog.Record) bool {
	return r.Decision.Outcome == core.Preempts && (r.Result.State == decisionlog.CarriedOut || r.Result.State == decisionlog.UnderWay)
}

// byRecord returns the preemptions in some records.
func byRecord(records []decisionlog.Record) []happening {
	var out []happening
	for i := range records {
		r := &records[i]
		if !happened(r) {
			continue
		}
		d := &r.Decision
		for j := range d.Victims {
			v := &d.Victims[j]
			out = append(out, happening{
				Time: r.Time.UTC(), Preemptor: unitName(d.Preemptor.Namespace, d.Preemptor.Name, d.Preemptor.Gang), Victim: unitName(v.Namespace, v.Name, v.Group),
				Namespace: v.Namespace, Rule: string(v.Rule), Message: d.WhyTaken(v), LostDeviceHours: recordedLoss(d, v),
				Source: sourceRecord, recorded: true, queue: v.Queue, pods: v.Pods,
			})
		}
	}
	return out
}

// recordedLoss returns the device-hours that a victim lost; nil if the version of the record has no
// losses.
func recordedLoss(d *core.Decision, v *core.Victim) *float64 {
	if d.LostWork == 0 {
		return nil
	}
	lost := core.DeviceHours(v.LostWork)
	return &lost
}

// choice is a decision that evicted the work in question, with the recorded alternatives.
type choice struct {
	Time      time.Time `json:"time"`
	Preemptor string    `json:"preemptor"`
	// Message describes the decision, and With names the other victims.
	Message string   `json:"message"`
	With    []string `json:"with,omitempty"`
	// Lost is the work that was lost with the subject, and LostInAll the work that the decision
	// lost in all, in device-hours. Both are 0 in records of older versions.
	Lost      float64 `json:"lostDeviceHours,omitempty"`
	LostInAll float64 `json:"lostDeviceHoursInAll,omitempty"`
	// Cascade counts the evictions by the replacements of all victims; absent if the record has
	// none.
	Cascade *core.Cascade `json:"cascade,omitempty"`
	// Stayed lists units that the search considered and did not evict: potential victims first,
	// then protected units.
	Stayed []stayer `json:"stayed,omitempty"`
	// Unnamed counts the potential victims that the record does not name.
	Unnamed int `json:"unnamed,omitempty"`
}

// stayer is a unit that stayed.
type stayer struct {
	Work     string `json:"work"`
	Priority int32  `json:"priority"`
	RaisedBy int64  `json:"raisedBy,omitempty"`
	Node     string `json:"node,omitempty"`
	// Protected is true if no rule permitted the preemptor to evict the unit.
	Protected bool   `json:"protected"`
	Because   string `json:"because"`
}

// choicesOf returns the decisions that evicted the work, newest first.
func choicesOf(records []decisionlog.Record, about *subject) []choice {
	var out []choice
	for i := range records {
		r := &records[i]
		if !happened(r) || !slices.ContainsFunc(r.Decision.Victims, func(v core.Victim) bool {
			return about.isVictim(unitName(v.Namespace, v.Name, v.Group), v.Pods)
		}) {
			continue
		}
		out = append(out, choiceOf(r, about))
	}
	return out
}

func choiceOf(r *decisionlog.Record, about *subject) choice {
	d := &r.Decision
	out := choice{
		Time: r.Time.UTC(), Preemptor: unitName(d.Preemptor.Namespace, d.Preemptor.Name, d.Preemptor.Gang),
		Message: d.Message, LostInAll: core.DeviceHours(d.LostWork), Cascade: d.Cascade, Unnamed: max(d.Reprieved-len(d.ReprievedUnits)-len(d.ElsewhereUnits), 0),
	}
	for i := range d.Victims {
		v := &d.Victims[i]
		if name := unitName(v.Namespace, v.Name, v.Group); !about.isVictim(name, v.Pods) {
			out.With = append(out.With, name)
		} else {
			out.Lost += core.DeviceHours(v.LostWork)
		}
	}
	for _, u := range d.ElsewhereUnits {
		out.Stayed = append(out.Stayed, stayer{Work: unitName(u.Namespace, u.Name, u.Group), Priority: u.Priority, RaisedBy: u.RaisedBy, Node: u.Node, Because: elsewhere(d, &u)})
	}
	for _, u := range d.ReprievedUnits {
		out.Stayed = append(out.Stayed, stayer{Work: unitName(u.Namespace, u.Name, u.Group), Priority: u.Priority, RaisedBy: u.RaisedBy, Because: "there is room enough without it"})
	}
	for _, u := range d.ProtectedUnits {
		out.Stayed = append(out.Stayed, stayer{
			Work: unitName(u.Namespace, u.Name, u.Group), Priority: u.Priority, RaisedBy: u.RaisedBy, Protected: true, Because: "protected by " + protection(&u),
		})
	}
	return out
}

// elsewhere returns the reason why a potential victim on another node was not evicted. By priority,
// no unit above the ceiling was at risk. In a reclaim, the order depends on the ratio of each
// queue's usage to its share, which the record does not have.
func elsewhere(d *core.Decision, u *core.ElsewhereUnit) string {
	byPriority := !slices.ContainsFunc(d.Victims, func(v core.Victim) bool { return v.Rule != core.RuleLowerPriority })
	if byPriority && d.Ceiling != nil && u.Priority > *d.Ceiling {
		return fmt.Sprintf("nothing above priority %d was at risk", *d.Ceiling)
	}
	return "no cheaper choice was found there"
}

// isVictim reports whether a victim is the subject, its group, or one of its pods, by name.
func (s *subject) isVictim(name string, pods []core.VictimPod) bool {
	return s.is(name) || slices.ContainsFunc(pods, func(pod core.VictimPod) bool { return s.is(unitName(pod.Namespace, pod.Name, false)) })
}

// otherThan returns the recorded alternatives of a choice that are part of some other work. If
// there are none, the second result has the reason.
func (c *choice) otherThan(other *subject) (stayed []stayer, silence string) {
	for _, s := range c.Stayed {
		if other.is(s.Work) {
			stayed = append(stayed, s)
		}
	}
	switch {
	case len(stayed) > 0:
		return stayed, ""
	case slices.ContainsFunc(c.With, other.is):
		return nil, other.name() + " was evicted as well"
	default:
		return nil, "the record has nothing about " + other.name() + ": it names only a few of the units that stayed"
	}
}
