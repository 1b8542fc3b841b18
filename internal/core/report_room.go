package core

import (
	"fmt"
	"strings"
)

// DomainNotes describes the domains that a decision compared, with one line per domain. A line has
// the number of members that fit in the domain, and the victims or the protected units there. The
// result is nil if the decision compared no domains.
func DomainNotes(d *Decision) []string {
	need := max(d.Preemptor.MinCount, 1)
	var notes []string
	for i := range d.Levels {
		c := &d.Levels[i]
		switch {
		case c.Obstacle != "":
			notes = append(notes, fmt.Sprintf("%s: %s", c.Key, c.Obstacle))
		case c.Together:
			notes = append(notes, fmt.Sprintf("%s=%s: all members share it", c.Key, c.Name))
		case c.Score != nil:
			notes = append(notes, fmt.Sprintf("%s=%s: %s", c.Key, c.Name, evicted(c.Score)))
		}
		notes = append(notes, notesOf(c.Key, c.Others, need)...)
	}
	if c := d.Domain; c != nil {
		if c.Name != "" {
			notes = append(notes, fmt.Sprintf("%s=%s: all members share it", c.Key, c.Name))
		}
		notes = append(notes, notesOf(c.Key, c.Others, need)...)
	}
	return notes
}

func notesOf(key string, domains []OtherDomain, need int) []string {
	notes := make([]string, len(domains))
	for i := range domains {
		notes[i] = fmt.Sprintf("%s=%s: %s", key, domains[i].Name, domains[i].note(need))
	}
	return notes
}

// note describes the room in a domain.
func (o *OtherDomain) note(need int) string {
	note := fmt.Sprintf("room for %d of %d now", o.Now, need)
	switch {
	case o.Score != nil && o.Units == 0:
		return note + "; all fit once leaving pods are gone"
	case o.Score != nil:
		return note + "; " + evicted(o.Score)
	case o.AtLeast != nil:
		return fmt.Sprintf("%s; at least %s would be evicted", note, plural(o.AtLeast.Pods, "pod"))
	case o.Members > o.Now:
		note += fmt.Sprintf(", for %d after preemption", o.Members)
	}
	if len(o.InTheWay) > 0 {
		note += "; in the way: " + ProtectedNote(o.InTheWay)
	}
	return note
}

// ProtectedNote returns a phrase with the number of protected units for each rule. Example: "2
// units protected by Toleration".
func ProtectedNote(units []RuleCount) string {
	parts := make([]string, len(units))
	for i, r := range units {
		parts[i] = fmt.Sprintf("%s protected by %s", plural(r.Units, "unit"), r.Rule)
	}
	return strings.Join(parts, ", ")
}

func evicted(score *Score) string {
	return fmt.Sprintf("%s would be evicted, of priorities up to %d", plural(score.Pods, "pod"), score.HighestPriority)
}
