package peers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestOutcomesAreStated checks the outcome of each case. The outcome must be the peer's outcome, or
// the outcome of Reprieve that the file states. If it is the outcome of Reprieve, the file must
// explain the difference.
func TestOutcomesAreStated(t *testing.T) {
	t.Parallel()
	for _, table := range tables(t) {
		t.Run(table.Name, func(t *testing.T) {
			t.Parallel()
			a := table.Compare()
			t.Logf("%d cases: %d agree, %d are explained; %d of %d nodes", a.Cases, a.Agree, a.Explained, a.SameNode, a.Nodes)
			if a.Cases == 0 || table.Commit == "" {
				t.Errorf("the table has %d cases and the commit %q", a.Cases, table.Commit)
			}
			for _, fault := range a.Faults {
				t.Error(fault)
			}
		})
	}
}

// TestDifferencesCiteARule checks that each explanation names a rule of the core, or a page of this
// repository.
func TestDifferencesCiteARule(t *testing.T) {
	t.Parallel()
	rules := map[core.Rule]bool{
		core.RuleLowerPriority: true, core.RuleNotLowerPriority: true, core.RuleStaleGang: true, core.RuleReclaim: true,
		core.RuleFairShare: true, core.RuleOverShare: true, core.RuleQuota: true, core.RuleLimit: true,
	}
	for _, table := range tables(t) {
		for i := range table.Cases {
			c := &table.Cases[i]
			if c.Rule == "" {
				continue
			}
			if len(c.Ours) == 0 {
				t.Errorf("%s: %s: the case explains a difference and states none", table.Name, c.Name)
			}
			if rules[core.Rule(c.Rule)] {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(c.Rule))); err != nil {
				t.Errorf("%s: %s: %q is no rule and no page", table.Name, c.Name, c.Rule)
			}
		}
	}
}

// TestCompareReportsFaults checks that Compare reports an outcome that differs from the file, and a
// difference without an explanation.
func TestCompareReportsFaults(t *testing.T) {
	t.Parallel()
	situation := "case c\nresources gpu\nnode n 1\nwork a priority=1 request=1 on=n\nwork b priority=2 request=1\n"
	for name, test := range map[string]struct {
		outcome, fault string
		want           Agreement
	}{
		"agrees":      {outcome: "peer a 0\npeer b 1", want: Agreement{Cases: 1, Agree: 1}},
		"explained":   {outcome: "peer b 0\nours a 0\nours b 1\nbecause LowerPriority It has.", want: Agreement{Cases: 1, Explained: 1}},
		"changed":     {outcome: "peer b 0", fault: "the file states nothing"},
		"as the peer": {outcome: "peer a 0\npeer b 1\nours b 1\nbecause LowerPriority It has.", fault: "differs from the peer's by nothing"},
		"unexplained": {outcome: "peer b 0\nours a 0\nours b 1", fault: "no line explains"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, err := read(situation + test.outcome)
			if err != nil {
				t.Fatal(err)
			}
			got := table.Compare()
			if test.fault != "" {
				if len(got.Faults) != 1 || !strings.Contains(got.Faults[0], test.fault) {
					t.Errorf("faults are %q, want one with %q", got.Faults, test.fault)
				}
				return
			}
			if len(got.Faults) > 0 || got.Agree != test.want.Agree || got.Explained != test.want.Explained {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestReadRejects checks that invalid files are an error.
func TestReadRejects(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no case":         "node n 1",
		"unknown line":    "case c\nfoo",
		"unknown setting": "case c\nresources gpu\nwork a request=1 color=red",
		"missing amount":  "case c\nresources gpu cpu\nnode n 1",
		"no request":      "case c\nresources gpu\nwork a priority=1",
		"nodes and pods":  "case c\nresources gpu\nwork a request=1 pods=2 min=2 on=n",
		"short source":    "source a b",
		"number of nodes": "case c\nresources gpu\nnode n one",
		"number of pods":  "case c\nresources gpu\npeer a one",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := read(text); !errors.Is(err, errFormat) {
				t.Errorf("error is %v, want one that wraps %v", err, errFormat)
			}
		})
	}
}

// TestQueueMustBeALeaf checks that a case is an error if its work is in a queue that is not a leaf
// queue.
func TestQueueMustBeALeaf(t *testing.T) {
	t.Parallel()
	table, err := read("case c\nresources gpu\nnode n 1\nqueue p quota=1\nqueue q parent=p quota=1\nwork a queue=p request=1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Play(&table.Cases[0]); !errors.Is(err, errFormat) {
		t.Errorf("error is %v, want one that wraps %v", err, errFormat)
	}
}

func tables(t *testing.T) []Table {
	t.Helper()
	out, err := Tables()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
