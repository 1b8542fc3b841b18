package peers

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed testdata/*.txt
var files embed.FS

// errFormat is wrapped by errors about the format of a file.
var errFormat = errors.New("not a table of cases")

// unbounded is the amount for the word "max".
const unbounded = math.MaxInt64 / 4

// Table has the cases of one table of a peer's tests.
type Table struct {
	// Name is the name of the file without its extension.
	Name string
	// Repository, File and Commit identify the source of the cases in the peer's repository.
	Repository, File, Commit string
	// Skipped has the cases of the peer that this table omits, by reason.
	Skipped []Skipped
	// Once is true if each workload that is pending at the start gets exactly one decision, and no
	// other workload gets one.
	Once  bool
	Cases []Case
}

// Skipped is a number of omitted cases with the reason.
type Skipped struct {
	Cases  int
	Reason string
}

// Case is one test case, with the outcome that the peer expects.
type Case struct {
	// Name is the name of the case in the peer's repository.
	Name      string
	Resources []string
	Nodes     []Node
	Queues    []Queue
	Work      []Work
	// Notes has settings of the peer's case that have no counterpart in Reprieve.
	Notes []string
	// Peer maps the name of a workload to the number of running pods that the peer expects at the
	// end. Ours has the number for Reprieve, but only for workloads with a difference.
	Peer, Ours map[string]int
	// PeerNode maps the name of a workload to the node that the peer expects for all its pods. It
	// omits workloads without an expected node.
	PeerNode map[string]string
	// Rule names the rule or the document that causes the difference. Because explains the
	// difference.
	Rule, Because string

	once bool
}

// Node is a node with its allocatable amounts.
type Node struct {
	Name    string
	Amounts []int64
}

// Queue is a queue in the tree of queues.
type Queue struct {
	Name, Parent string
	Quota, Limit []int64
	Weight       int64
	Priority     int32
}

// Work is a workload: a single pod or a gang.
type Work struct {
	Name, Queue string
	Priority    int32
	// Requests has the amounts that each pod requests. MinCount is the number of pods that must run
	// together.
	Requests [][]int64
	MinCount int
	// On has the node of each pod at the start; "" if the pod does not run.
	On []string
	// Since orders workloads by age: a smaller number is older.
	Since int64
	// Fixed is true for work that is never evicted. Leaving is true for work that terminates. Stale
	// is true for a gang that has had fewer than MinCount members for too long.
	Fixed, Leaving, Stale bool
}

// Tables reads all files in testdata and returns their tables, sorted by name.
func Tables() ([]Table, error) {
	entries, err := files.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	var out []Table
	for _, entry := range entries {
		text, err := files.ReadFile(path.Join("testdata", entry.Name()))
		if err != nil {
			return nil, err
		}
		t, err := read(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		t.Name = strings.TrimSuffix(entry.Name(), ".txt")
		out = append(out, *t)
	}
	return out, nil
}

// read parses the text of a file.
func read(text string) (*Table, error) {
	t := &Table{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for at := 1; lines.Scan(); at++ {
		kind, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if err := t.line(kind, strings.TrimSpace(rest)); err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
	}
	return t, lines.Err()
}

// line parses a line of a file and adds it to the table or to the table's last case.
func (t *Table) line(kind, rest string) error {
	switch kind {
	case "", "#":
		return nil
	case "source":
		words := strings.Fields(rest)
		if len(words) != 3 {
			return fmt.Errorf("%w: source %q", errFormat, rest)
		}
		t.Repository, t.File, t.Commit = words[0], words[1], words[2]
		return nil
	case "decide":
		t.Once = rest == "once"
		return nil
	case "skipped":
		count, reason, _ := strings.Cut(rest, " ")
		n, err := number(count)
		t.Skipped = append(t.Skipped, Skipped{int(n), reason})
		return err
	case "case":
		t.Cases = append(t.Cases, Case{
			Name: rest, Peer: make(map[string]int), PeerNode: make(map[string]string), Ours: make(map[string]int), once: t.Once,
		})
		return nil
	}
	if len(t.Cases) == 0 {
		return fmt.Errorf("%w: %q before the first case", errFormat, kind)
	}
	return t.Cases[len(t.Cases)-1].line(kind, rest)
}

// line parses a line about a case and adds it to the case.
func (c *Case) line(kind, rest string) error {
	name, settings, _ := strings.Cut(rest, " ")
	switch kind {
	case "resources":
		c.Resources = strings.Fields(rest)
		return nil
	case "note", "policy":
		c.Notes = append(c.Notes, kind+" "+rest)
		return nil
	case "because":
		c.Rule, c.Because = name, settings
		return nil
	case "peer", "ours":
		return c.outcome(kind, name, settings)
	case "node":
		amounts, err := c.amounts(settings)
		c.Nodes = append(c.Nodes, Node{name, amounts})
		return err
	case "queue":
		q := Queue{Name: name, Weight: 1}
		c.Queues = append(c.Queues, q)
		return c.settings(settings, c.Queues[len(c.Queues)-1].set)
	case "work":
		c.Work = append(c.Work, Work{Name: name})
		w := &c.Work[len(c.Work)-1]
		if err := c.settings(settings, w.set); err != nil {
			return err
		}
		return w.complete()
	}
	return fmt.Errorf("%w: unknown line %q", errFormat, kind)
}

// outcome parses a line "peer" or "ours": the number of running pods of a workload, and optionally
// their node.
func (c *Case) outcome(kind, name, settings string) error {
	count, node, _ := strings.Cut(settings, " ")
	n, err := number(count)
	if kind == "ours" {
		c.Ours[name] = int(n)
		return err
	}
	c.Peer[name] = int(n)
	if node != "" {
		c.PeerNode[name] = node
	}
	return err
}

// setting is a word name=value in a line about a queue or a workload.
type setting struct {
	c           *Case
	name, value string
}

// settings parses the settings in a text and calls set for each of them.
func (c *Case) settings(text string, set func(setting) error) error {
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		if err := set(setting{c, name, value}); err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	return nil
}

func (s setting) number() (int64, error) { return number(s.value) }

func (q *Queue) set(s setting) (err error) {
	var n int64
	switch s.name {
	case "parent":
		q.Parent = s.value
	case "quota":
		q.Quota, err = s.c.amounts(s.value)
	case "limit":
		q.Limit, err = s.c.amounts(s.value)
	case "weight":
		q.Weight, err = s.number()
	case "priority":
		n, err = s.number()
		q.Priority = int32(n)
	default:
		return fmt.Errorf("%w: unknown setting", errFormat)
	}
	return err
}

func (w *Work) set(s setting) (err error) {
	var n int64
	switch s.name {
	case "queue":
		w.Queue = s.value
	case "priority":
		n, err = s.number()
		w.Priority = int32(n)
	case "request":
		for text := range strings.SplitSeq(s.value, "|") {
			var request []int64
			if request, err = s.c.amounts(text); err != nil {
				return err
			}
			w.Requests = append(w.Requests, request)
		}
	case "pods":
		n, err = s.number()
		if len(w.Requests) == 1 {
			w.Requests = slices.Repeat(w.Requests, int(n))
		}
	case "min":
		n, err = s.number()
		w.MinCount = int(n)
	case "on":
		for node := range strings.SplitSeq(s.value, ",") {
			if node == "-" {
				node = ""
			}
			w.On = append(w.On, node)
		}
	case "since":
		w.Since, err = s.number()
	case "fixed":
		w.Fixed = true
	case "leaving":
		w.Leaving = true
	case "stale":
		w.Stale = true
	default:
		return fmt.Errorf("%w: unknown setting", errFormat)
	}
	return err
}

// complete sets the defaults of omitted settings, and returns an error if the settings of the
// workload are inconsistent.
func (w *Work) complete() error {
	if w.MinCount == 0 {
		w.MinCount = len(w.Requests)
	}
	if w.On == nil {
		w.On = make([]string, len(w.Requests))
	}
	if len(w.Requests) == 0 || len(w.On) != len(w.Requests) || w.MinCount > len(w.Requests) {
		return fmt.Errorf("%w: %s has %d requests, %d nodes and a minimum of %d", errFormat, w.Name, len(w.Requests), len(w.On), w.MinCount)
	}
	return nil
}

// number parses an integer.
func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no number", errFormat, text)
	}
	return n, nil
}

// amounts parses amounts, one for each resource of the case.
func (c *Case) amounts(text string) ([]int64, error) {
	words := strings.Split(text, ",")
	if len(words) != len(c.Resources) {
		return nil, fmt.Errorf("%w: %q lists no amount for each of %v", errFormat, text, c.Resources)
	}
	out := make([]int64, len(words))
	for r, word := range words {
		if word == "max" {
			out[r] = unbounded
			continue
		}
		n, err := number(word)
		if err != nil {
			return nil, err
		}
		out[r] = n
	}
	return out, nil
}
