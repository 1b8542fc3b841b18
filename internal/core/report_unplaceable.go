package core

import (
	"fmt"
	"slices"
	"strings"
)

// namedRefusals is the maximum number of reasons in a phrase about members that no node admits.
const namedRefusals = 3

// unplaceable describes the members that no node admits, such as a member with a volume claim that
// is not bound. More room does not help them, and NodesOut has only the nodes that admit no member
// at all. It returns "" if some node admits each class, or if no node admits any class.
func (t *simulation) unplaceable(every []want) string {
	if len(every) < 2 {
		return ""
	}
	members, classes := make(map[string]int), 0
	for _, w := range every {
		if why, nowhere := t.refusedEverywhere(w.class); nowhere {
			members[why] += w.count
			classes++
		}
	}
	if classes == len(every) {
		return ""
	}
	var out strings.Builder
	for _, row := range firstOf(reasonCounts(members), namedRefusals) {
		fmt.Fprintf(&out, "; no node admits %s", plural(row.Nodes, "member"))
		if row.Reason != "" {
			fmt.Fprintf(&out, ": %s", row.Reason)
		}
	}
	return out.String()
}

// refusedEverywhere reports whether no node admits members of a class. why is the reason if it is
// the same on all nodes.
func (t *simulation) refusedEverywhere(class int) (why string, nowhere bool) {
	// The results of admitsNode are cached, but reasons are not.
	if slices.ContainsFunc(t.c.byName, func(n int32) bool { return t.c.sound[n] && t.admitsNode(class, n) }) {
		return "", false
	}
	same := true
	for _, n := range t.c.byName {
		if !t.c.sound[n] {
			continue
		}
		reason := t.refusal(class, n)
		same = same && (!nowhere || reason == why)
		why, nowhere = reason, true
	}
	if !same {
		why = ""
	}
	return why, nowhere
}

func firstOf(rows []ReasonCount, most int) []ReasonCount { return rows[:min(len(rows), most)] }
