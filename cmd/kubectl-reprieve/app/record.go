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

// recordSource is the source of the scheduler's record of decisions: files of a decision log, or
// the memory of a scheduler. The zero value is no source.
type recordSource struct {
	files     []string
	scheduler schedulerEndpoint
}

// addFlags adds the flags of the source.
func (r *recordSource) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&r.files, "log", nil, "A file of the scheduler's --decision-log to go by as well, again for more; - for standard input.")
	r.scheduler.addFlags(flags)
}

// named reports whether the flags select a source.
func (r *recordSource) named() bool { return len(r.files) > 0 || r.scheduler.url != "" }

// check returns an error if the flags select both files and a scheduler.
func (r *recordSource) check() error {
	if len(r.files) > 0 && r.scheduler.url != "" {
		return usage(errors.New("--log and --scheduler: name one of the two"))
	}
	return nil
}

// records returns the decisions of a source, newest first. It returns each decision once. Without a
// source, it returns none.
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
	// A log may have several lines about one decision. Keep the line with the latest outcome.
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

// ofLog adds the name of the file to an EmptyError, and returns other errors unchanged. An
// EmptyError reports that the file has no decisions.
func ofLog(name string, err error) error {
	var empty *report.EmptyError
	if errors.As(err, &empty) {
		return usage(fmt.Errorf("%s %w", name, err))
	}
	return err
}

// isEmpty reports whether an error is about an empty file. An empty decision log is valid: it
// belongs to a standby, or to a scheduler that has made no decision yet.
func isEmpty(err error) bool {
	var empty *report.EmptyError
	return errors.As(err, &empty) && empty.First == nil
}

// happened reports whether the eviction of a decision's victims has begun.
func happened(r *decisionlog.Record) bool {
	return r.Decision.Outcome == core.Preempts && (r.Result.State == decisionlog.CarriedOut || r.Result.State == decisionlog.UnderWay)
}

// byRecord returns the preemptions in records of decisions.
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

// recordedLoss returns the device-hours that a victim lost. It returns nil if the record has no
// losses, because an older version wrote it.
func recordedLoss(d *core.Decision, v *core.Victim) *float64 {
	if d.LostWork == 0 {
		return nil
	}
	lost := core.DeviceHours(v.LostWork)
	return &lost
}

// choice is a decision that evicted the work of the question, with the alternatives in the record.
type choice struct {
	Time      time.Time `json:"time"`
	Preemptor string    `json:"preemptor"`
	// Message describes the decision.
	Message string `json:"message"`
	// With names the victims that the decision evicted together with the work.
	With []string `json:"with,omitempty"`
	// Lost is the work that the subject lost, in device-hours; 0 in records of older versions.
	Lost float64 `json:"lostDeviceHours,omitempty"`
	// LostInAll is the work that all victims lost, in device-hours; 0 in records of older versions.
	LostInAll float64 `json:"lostDeviceHoursInAll,omitempty"`
	// Cascade counts the evictions by the replacements of all victims; nil if the record does not
	// have it.
	Cascade *core.Cascade `json:"cascade,omitempty"`
	// Stayed lists units that the decision did not evict: first potential victims, then protected
	// units.
	Stayed []stayer `json:"stayed,omitempty"`
	// Unnamed is the number of potential victims that the record counts but does not name.
	Unnamed int `json:"unnamed,omitempty"`
}

// stayer is a unit that a decision did not evict. Because is the reason.
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

// elsewhere returns the reason why a potential victim on another node was not evicted. In a
// preemption by priority, a unit above the ceiling was never at risk. In a reclaim, the order of
// units depends on the usage and share of each queue, which the record does not have.
func elsewhere(d *core.Decision, u *core.ElsewhereUnit) string {
	byPriority := !slices.ContainsFunc(d.Victims, func(v core.Victim) bool { return v.Rule != core.RuleLowerPriority })
	if byPriority && d.Ceiling != nil && u.Priority > *d.Ceiling {
		return fmt.Sprintf("nothing above priority %d was at risk", *d.Ceiling)
	}
	return "no cheaper choice was found there"
}

// isVictim reports whether a victim is the subject, one of its groups, or one of its pods. name is
// the name of the victim, and pods are the pods that were evicted with it.
func (s *subject) isVictim(name string, pods []core.VictimPod) bool {
	return s.is(name) || slices.ContainsFunc(pods, func(pod core.VictimPod) bool { return s.is(unitName(pod.Namespace, pod.Name, false)) })
}

// otherThan returns the units in Stayed that belong to the work of the argument other. If there are
// none, the result silence explains why.
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
