package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// line returns a line of inputs with pods of the given names. A minus before a name means that the
// pod was deleted.
func line(number, from uint64, pods ...string) *decisionlog.Inputs {
	in := &decisionlog.Inputs{Number: number, From: from, Objects: make(map[string][]json.RawMessage), Gone: make(map[string][]string)}
	if from == 0 {
		in.Whole = &decisionlog.Whole{}
	}
	for _, name := range pods {
		if gone, ok := strings.CutPrefix(name, "-"); ok {
			in.Gone[inventory.Pods] = append(in.Gone[inventory.Pods], "ns/"+gone)
			continue
		}
		raw := fmt.Sprintf(`{"metadata":{"namespace":"ns","name":%q,"uid":%q}}`, name, name)
		in.Objects[inventory.Pods] = append(in.Objects[inventory.Pods], json.RawMessage(raw))
	}
	return in
}

// TestLines checks that the cluster is known after lines without a gap, and unknown after a gap.
func TestLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []*decisionlog.Inputs
		want  string
	}{
		"a whole one":                       {lines: []*decisionlog.Inputs{line(1, 0, "a", "b")}, want: "a b"},
		"what has come and gone since":      {lines: []*decisionlog.Inputs{line(1, 0, "a", "b"), line(2, 1, "c", "-a")}, want: "b c"},
		"none before a whole one":           {lines: []*decisionlog.Inputs{line(2, 1, "a")}, want: "none"},
		"none after a gap":                  {lines: []*decisionlog.Inputs{line(1, 0, "a"), line(3, 2, "b")}, want: "none"},
		"none after a gap, and on":          {lines: []*decisionlog.Inputs{line(1, 0, "a"), line(3, 2, "b"), line(4, 3, "c")}, want: "none"},
		"a whole one after a gap":           {lines: []*decisionlog.Inputs{line(1, 0, "a"), line(3, 2, "b"), line(4, 0, "c")}, want: "c"},
		"the same again, at a file's start": {lines: []*decisionlog.Inputs{line(1, 0, "a"), line(2, 1, "b"), line(2, 0, "a", "b"), line(3, 2, "c")}, want: "a b c"},
		"the same line twice":               {lines: []*decisionlog.Inputs{line(1, 0, "a"), line(2, 1, "-a"), line(2, 1, "-a")}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{}
			for _, in := range c.lines {
				if err := s.next(in); err != nil {
					t.Fatal(err)
				}
			}
			got := "none"
			if s.objects != nil {
				var names []string
				for _, object := range s.objects.Objects(inventory.Pods) {
					names = append(names, object.Name)
				}
				got = strings.Join(names, " ")
			}
			if got != c.want {
				t.Errorf("The cluster is %q, want %q", got, c.want)
			}
		})
	}
	of := &state{}
	if err := of.next(line(1, 0, "a")); err != nil {
		t.Fatal(err)
	}
	if roots, asked := of.objects.Roots(); asked {
		t.Errorf("A line of an older version has the kinds %v", roots)
	}
	rooted := line(2, 0, "a")
	rooted.Whole.Roots = []decisionlog.Root{{APIVersion: "batch/v1", Kind: "Job", Resource: "jobs"}}
	if err := of.next(rooted); err != nil {
		t.Fatal(err)
	}
	if roots, _ := of.objects.Roots(); len(roots) != 1 || roots[0].Kind != "Job" {
		t.Errorf("The kinds are %v", roots)
	}
	s := &state{}
	broken := line(1, 0, "a")
	broken.Objects[inventory.Pods] = []json.RawMessage{json.RawMessage(`1`)}
	if err := s.next(broken); err == nil || s.objects != nil {
		t.Errorf("A broken line leaves %v, %v", s.objects, err)
	}
}

// TestWhatOnlyTheSchedulerKnew checks that the objects for a decision include the reservations and
// the evictions under way.
func TestWhatOnlyTheSchedulerKnew(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	in := line(1, 0, "waits", "other")
	in.Objects[inventory.Pods] = append(in.Objects[inventory.Pods], json.RawMessage(`{"metadata":{"namespace":"ns","name":"runs","uid":"runs"},"spec":{"nodeName":"a"}}`))
	in.Promised, in.Leaving = []decisionlog.Reservation{{UID: "waits", Node: "b"}}, []string{"runs", "gone-already"}
	s := &state{}
	if err := s.next(in); err != nil {
		t.Fatal(err)
	}
	objects, err := s.at(now)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range pods {
		got = append(got, fmt.Sprintf("%s %s %t", pod.Name, pod.Status.NominatedNodeName, pod.DeletionTimestamp != nil))
	}
	if want := "other  false; runs  true; waits b false"; strings.Join(got, "; ") != want || !objects.Taken.Equal(now) {
		t.Errorf("The pods are %q, want %q", got, want)
	}
}

// TestPrioritized checks a gang whose priority the scheduler had set before the log had it.
func TestPrioritized(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		of   core.Preemptor
		want int32
	}{
		"not told of yet":           {spec: `{"priorityClassName":"high"}`, of: core.Preemptor{UID: "u", Gang: true, Priority: 9}, want: 9},
		"told of":                   {spec: `{"priority":5}`, of: core.Preemptor{UID: "u", Gang: true, Priority: 9}, want: 5},
		"a pod of the group's name": {spec: `{}`, of: core.Preemptor{UID: "u", Priority: 9}},
		"another group of the name": {spec: `{}`, of: core.Preemptor{UID: "other", Gang: true, Priority: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := line(1, 0)
			in.Objects[inventory.PodGroups] = []json.RawMessage{json.RawMessage(`{"metadata":{"namespace":"ns","name":"g","uid":"u"},"spec":` + c.spec + `}`)}
			s := &state{}
			if err := s.next(in); err != nil {
				t.Fatal(err)
			}
			c.of.Namespace, c.of.Name = "ns", "g"
			objects, err := prioritized(s.objects, &c.of)
			if err != nil {
				t.Fatal(err)
			}
			found, _ := objects.Find(inventory.PodGroups, "ns", "g")
			pg := &v1alpha1.PodGroup{}
			if err := found.Into(pg); err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(pg.Spec.Priority, 0); got != c.want {
				t.Errorf("Its priority is %d, want %d", got, c.want)
			}
		})
	}
}
