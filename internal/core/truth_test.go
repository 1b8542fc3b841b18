package core

import (
	"slices"
	"testing"
)

// publisher is a unit, or a whole gang, that can publish the time of its last checkpoint.
type publisher struct {
	units []int
	// start is the time when the publisher started.
	start int64
}

// pickPublisher returns a random unit of a case, with all members of its gang if the gang is whole.
// pickPublisher also removes the checkpoints of these units.
func pickPublisher(pick chooser, s *Snapshot) (publisher, bool) {
	w := pick(len(s.Units))
	p := publisher{units: []int{w}, start: s.Units[w].Start}
	if unit := &s.Units[w]; newGangIndex(s)[unit.PodGroup] != nil && !unit.Group {
		p.units = refGangs(s)[unit.PodGroup]
	}
	for _, u := range p.units {
		p.start = max(p.start, s.Units[u].Start)
		for i := range s.Units[u].Pods {
			progress := &s.Units[u].Pods[i].Progress
			progress.Saved, progress.GroupSaved, progress.Interval = 0, 0, 0
		}
	}
	return p, s.Units[w].Start != 0
}

// publish returns a snapshot where the first pod of the publisher has a checkpoint at the given
// time.
func (p *publisher) publish(s *Snapshot, at int64) *Snapshot {
	out := *s
	out.Units = slices.Clone(s.Units)
	unit := &out.Units[p.units[0]]
	unit.Pods = slices.Clone(unit.Pods)
	unit.Pods[0].Progress.Saved = at
	return &out
}

// suffers reports whether a set of victims stops any unit of the publisher.
func (p *publisher) suffers(s *Snapshot, victims []int) bool {
	broken := refBroken(s, victims)
	return slices.ContainsFunc(p.units, func(u int) bool {
		return slices.Contains(victims, u) || !s.Units[u].Group && slices.Contains(broken, s.Units[u].PodGroup)
	})
}

// loss returns the total lost work of the units of a publisher.
func (p *publisher) loss(s *Snapshot, by *Preemptor) (lost int64) {
	for _, u := range p.units {
		lost += refLoss(s, by, u)
	}
	return lost
}

// TestTruthIsNotWorseThanSilence checks the rule of docs/design/truth-and-silence.md. A publisher
// may become a victim because it publishes the true time of its last checkpoint. In this case, the
// new victims must not be more expensive in truth than the victims without the publication. If the
// true loss is at least the loss that the queue's cap leaves to silent work, the publisher must not
// become a victim.
func TestTruthIsNotWorseThanSilence(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]randomShape{
		"pod":                          {nodes: 4, units: 12, full: true, lost: true, tolerations: true},
		"pod, in bands":                {nodes: 4, units: 12, full: true, lost: true, banded: true},
		"pod, beside groups":           {nodes: 4, units: 12, full: true, lost: true, groups: true},
		"pod, beside gangs":            {nodes: 4, units: 12, full: true, lost: true, gangs: true, whole: true},
		"gang":                         {nodes: 4, units: 12, full: true, lost: true, members: 4, classes: 1, gang: true},
		"gang, in bands":               {nodes: 4, units: 12, full: true, lost: true, members: 4, classes: 1, gang: true, banded: true},
		"gang, beside gangs":           {nodes: 4, units: 12, full: true, lost: true, members: 4, classes: 1, gang: true, gangs: true, whole: true},
		"gang, beside gangs, in bands": {nodes: 4, units: 12, full: true, lost: true, members: 4, classes: 1, gang: true, gangs: true, whole: true, banded: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chosen, dearer := 0, 0
			for seed := range uint64(2000) {
				pick := fromRand(seed)
				s, p := randomCase(pick, shape)
				w, started := pickPublisher(pick, s)
				if !started {
					continue
				}
				published := w.publish(s, min(w.start+int64(1+pick(20))*1e9, p.Now))
				silent, truth := mustDecide(t, s, p, nil), mustDecide(t, published, p, nil)
				before, after := unitsNamed(s, silent.Victims), unitsNamed(s, truth.Victims)
				if w.loss(published, p) >= w.loss(s, p) {
					dearer++
				}
				if silent.Outcome != Preempts || !w.suffers(s, after) || w.suffers(s, before) {
					continue
				}
				chosen++
				if w.loss(published, p) >= w.loss(s, p) {
					t.Errorf("seed %d: units %v lose %d in truth and %d in silence, but are victims in truth only", seed, w.units, w.loss(published, p), w.loss(s, p))
				}
				flat, alone := withoutBands(t, published, p, &Decision{})
				if got, want := refScore(flat, alone, after), refScore(flat, alone, before); better(got, want) > 0 {
					t.Errorf("seed %d: units %v are victims in truth only, at %+v, and the set of their silence is cheaper, %+v", seed, w.units, got, want)
				}
			}
			t.Logf("truth made %d victims", chosen)
			if chosen == 0 || dearer == 0 {
				t.Errorf("truth made %d victims and raised the loss in %d cases: the cases prove nothing", chosen, dearer)
			}
		})
	}
}
