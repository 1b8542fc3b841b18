package peers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Agreement has the result of comparing the cases of one table with Reprieve's outcomes.
type Agreement struct {
	// Cases is the number of cases:
	//
	//   - Agree: in these cases, Reprieve's outcome is the peer's outcome.
	//   - Explained: in these cases, the outcomes differ, and the table explains the difference.
	//   - All other cases have a description in Faults.
	Cases, Agree, Explained int
	// Nodes is the number of workloads with two properties: the number of running pods is as
	// expected, and the peer names an expected node. SameNode is the number of these workloads that
	// run on the expected node. A different node is no fault, because the core selects by name
	// among equal nodes.
	Nodes, SameNode int
	Faults          []string
}

// Compare runs all cases of a table and compares their outcomes with the table.
func (t *Table) Compare() Agreement {
	a := Agreement{Cases: len(t.Cases)}
	for i := range t.Cases {
		c := &t.Cases[i]
		o, err := Play(c)
		if err != nil {
			a.Faults = append(a.Faults, fmt.Sprintf("%s: %v", c.Name, err))
			continue
		}
		a.count(c, o)
		switch differs := c.differences(o); {
		case c.changed(o):
			a.Faults = append(a.Faults, fmt.Sprintf("%s: the outcome differs from the peer's by %s; the file states %s",
				c.Name, say(differs), say(c.Ours)))
		case len(differs) == 0:
			a.Agree++
		case c.Rule == "" || c.Because == "":
			a.Faults = append(a.Faults, fmt.Sprintf("%s: no line explains the difference %s", c.Name, say(differs)))
		default:
			a.Explained++
		}
	}
	return a
}

// count adds the workloads of a case to Nodes and SameNode.
func (a *Agreement) count(c *Case, o *Outcome) {
	for name, node := range c.PeerNode {
		if n := c.Peer[name]; n == 0 || o.Running[name] != n {
			continue
		}
		a.Nodes++
		if !slices.ContainsFunc(o.Nodes[name], func(on string) bool { return on != node }) {
			a.SameNode++
		}
	}
}

// expected returns the number of running pods that the peer expects for a workload. If the peer
// names no number, the number must stay as at the start.
func (c *Case) expected(w *Work) int {
	if n, ok := c.Peer[w.Name]; ok {
		return n
	}
	n := 0
	for _, node := range w.On {
		if node != "" {
			n++
		}
	}
	return n
}

// differences returns the number of running pods for each workload whose number differs from the
// peer's. Workloads that differ only by name are interchangeable.
func (c *Case) differences(o *Outcome) map[string]int {
	theirs, ours := make(map[string][]int), make(map[string][]int)
	for i := range c.Work {
		w := &c.Work[i]
		key := w.likeness()
		theirs[key] = append(theirs[key], c.expected(w))
		ours[key] = append(ours[key], o.Running[w.Name])
	}
	out := make(map[string]int)
	for i := range c.Work {
		w := &c.Work[i]
		key := w.likeness()
		slices.Sort(theirs[key])
		slices.Sort(ours[key])
		if !slices.Equal(theirs[key], ours[key]) && c.expected(w) != o.Running[w.Name] {
			out[w.Name] = o.Running[w.Name]
		}
	}
	return out
}

// changed reports whether the outcome differs from the outcome of Reprieve that the file states.
func (c *Case) changed(o *Outcome) bool { return !maps.Equal(c.differences(o), c.Ours) }

// likeness returns a text that is equal for two workloads if they differ only by name.
func (w *Work) likeness() string {
	return fmt.Sprint(w.Queue, w.Priority, w.Requests, w.MinCount, w.On, w.Since, w.Fixed, w.Leaving, w.Stale)
}

// say formats the numbers of running pods by workload.
func say(running map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(running)) {
		words = append(words, fmt.Sprintf("%s=%d", name, running[name]))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}
