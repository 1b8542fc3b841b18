package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// forTeams sets a namespaceSelector for namespaces with one of these values of the label team.
func forTeams(teams ...string) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) {
		s.NamespaceSelector = &metav1.LabelSelector{}
		if len(teams) > 0 {
			s.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: teams}}
		}
	}
}

func upTo(class string) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) { s.MaxPriorityClass = &class }
}

func namespaceOf(name, team, queue string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	if queue != "" {
		ns.Annotations = map[string]string{v1alpha1.AnnotationDefaultQueue: queue}
	}
	return ns
}

// tenants returns a Ledger with queues for two teams, an open queue, and a queue with access rules
// and queues below it.
func tenants() *Ledger {
	b := boardOf(
		queueUnder("red", "", forTeams("red"), upTo("mid")), queueUnder("blue", "", forTeams("blue")), queueUnder("open", ""),
		queueUnder("org", "", forTeams("red", "blue"), upTo("low")), queueUnder("inherits", "org"), queueUnder("opens", "org", forTeams(), upTo("high")),
		queueUnder("typo", "", upTo("missing")), queueUnder("unread", "", func(s *v1alpha1.QueueSpec) {
			s.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Near"}}}
		}),
	)
	for name, value := range map[string]int32{"low": 10, "mid": 100, "high": 1000} {
		b.SetClass(name, value)
	}
	b.SetNamespace(namespaceOf("r", "red", ""))
	b.SetNamespace(namespaceOf("rd", "red", "red"))
	b.SetNamespace(namespaceOf("amiss", "red", "blue"))
	b.SetNamespace(namespaceOf("other", "green", ""))
	return b
}

func TestClaim(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		work Work
		// want is the queue that the work counts for. wantBar is the reason why the work may not
		// use the queue that it names.
		want, wantBar string
		wantWords     string
	}{
		"a queue of the team":                       {work: Work{Namespace: "r", Named: "red", Ours: true, Priority: 100}, want: "red"},
		"that of another team":                      {work: Work{Namespace: "r", Named: "blue", Ours: true}, wantBar: v1alpha1.ReasonQueueNotAllowed, wantWords: `Queue "blue" is not for namespace "r"`},
		"that of another team, of no profile":       {work: Work{Namespace: "r", Named: "blue"}, wantBar: v1alpha1.ReasonQueueNotAllowed},
		"a queue for all":                           {work: Work{Namespace: "other", Named: "open", Ours: true}, want: "open"},
		"what is said above":                        {work: Work{Namespace: "r", Named: "inherits", Ours: true}, want: "inherits"},
		"what is said above, of others":             {work: Work{Namespace: "other", Named: "inherits", Ours: true}, wantBar: v1alpha1.ReasonQueueNotAllowed},
		"a queue that opens what is above":          {work: Work{Namespace: "other", Named: "opens", Ours: true, Priority: 1000}, want: "opens"},
		"a priority above the queue's":              {work: Work{Namespace: "r", Named: "red", Ours: true, Priority: 101}, wantBar: v1alpha1.ReasonPriorityAboveQueue, wantWords: `priority 101 is above 100, the highest that Queue "red" takes (PriorityClass "mid")`},
		"a priority above what is said above":       {work: Work{Namespace: "r", Named: "inherits", Ours: true, Priority: 11}, wantBar: v1alpha1.ReasonPriorityAboveQueue},
		"a priority that is not known":              {work: Work{Namespace: "r", Named: "red", Ours: true, Priority: Unknown}, want: "red"},
		"a bound that does not exist":               {work: Work{Namespace: "r", Named: "typo", Ours: true, Priority: 0}, wantBar: v1alpha1.ReasonQueueUnusable, wantWords: `"missing"`},
		"a selector that cannot be read":            {work: Work{Namespace: "r", Named: "unread", Ours: true}, wantBar: v1alpha1.ReasonQueueNotAllowed, wantWords: "cannot be read"},
		"none":                                      {work: Work{Namespace: "r", Ours: true}},
		"none, where one is required":               {work: Work{Namespace: "r", Ours: true, Required: true}, wantBar: v1alpha1.ReasonQueueRequired, wantWords: "queues.required"},
		"the default":                               {work: Work{Namespace: "rd", Ours: true, Required: true}, want: "red"},
		"the default, of no profile":                {work: Work{Namespace: "rd"}},
		"its own comes before the default":          {work: Work{Namespace: "rd", Named: "open", Ours: true}, want: "open"},
		"a default that is not for the namespace":   {work: Work{Namespace: "amiss", Ours: true}, wantBar: v1alpha1.ReasonQueueNotAllowed},
		"a namespace that is not known":             {work: Work{Namespace: "new", Ours: true}, wantBar: v1alpha1.ReasonPending},
		"the same, of a queue for some":             {work: Work{Namespace: "new", Named: "red", Ours: true}, wantBar: v1alpha1.ReasonPending},
		"the same, of a queue for all":              {work: Work{Namespace: "new", Named: "open", Ours: true}, want: "open"},
		"a queue that does not exist":               {work: Work{Namespace: "r", Named: "gone", Ours: true}, want: "gone", wantBar: v1alpha1.ReasonQueueNotFound},
		"a queue with others below it":              {work: Work{Namespace: "r", Named: "org", Ours: true}, want: "org", wantBar: v1alpha1.ReasonQueueNotLeaf},
		"that runs where it may not":                {work: Work{Namespace: "r", Named: "blue", Ours: true, Placed: true}, want: "blue", wantBar: v1alpha1.ReasonQueueNotAllowed},
		"that runs where it may not, of no profile": {work: Work{Namespace: "r", Named: "blue", Placed: true}, wantBar: v1alpha1.ReasonQueueNotAllowed},
		"that runs above the bound":                 {work: Work{Namespace: "r", Named: "red", Ours: true, Placed: true, Priority: 101}, want: "red", wantBar: v1alpha1.ReasonPriorityAboveQueue},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tenants().Claim(tt.work)
			if got.Queue != tt.want || got.Bar.Reason != tt.wantBar || !strings.Contains(got.Bar.Message, tt.wantWords) {
				t.Errorf("it counts for %q, barred by %+v, want %q, %s %q", got.Queue, got.Bar, tt.want, tt.wantBar, tt.wantWords)
			}
			aboutQueue := tt.wantBar == v1alpha1.ReasonQueueNotFound || tt.wantBar == v1alpha1.ReasonQueueNotLeaf
			if want := tt.wantBar != "" && !aboutQueue; got.Confined != want {
				t.Errorf("it is confined: %t, want %t", got.Confined, want)
			}
		})
	}
	t.Run("where there are no queues", func(t *testing.T) {
		t.Parallel()
		b := NewLedger()
		if got := b.Claim(Work{Namespace: "r", Named: "red", Ours: true}); got != (Claim{}) {
			t.Errorf("names mean something: %+v", got)
		}
		if got := b.Claim(Work{Namespace: "r", Named: "red", Ours: true, Required: true}); got.Bar.Reason != v1alpha1.ReasonQueueRequired {
			t.Errorf("work is in no queue, and goes: %+v", got)
		}
	})
}

// TestClaimOfWhatRuns checks the queue of a running pod after changes of its queue and of its
// label. The pod must count for the same queue until it names another queue that it may use.
func TestClaimOfWhatRuns(t *testing.T) {
	t.Parallel()
	b := tenants()
	runs := pod("a", 1, "n")
	b.Charge(runs, b.Claim(Work{Namespace: "r", Named: "red", Ours: true, Placed: true, Pod: runs.UID}).Queue)
	claim := func(named string) string {
		return b.Claim(Work{Namespace: "r", Named: named, Ours: true, Placed: true, Pod: runs.UID}).Queue
	}
	b.SetQueue(queueUnder("red", "", forTeams("green")))
	if got := claim("red"); got != "red" {
		t.Errorf("its queue is for others now, and it counts for %q", got)
	}
	if got := claim("blue"); got != "red" {
		t.Errorf("it names another team's queue, and counts for %q", got)
	}
	for _, named := range []string{"nosuch", "org"} {
		if got := claim(named); got != "red" {
			t.Errorf("it names %s, which no work can be in, and counts for %q", named, got)
		}
	}
	if got := b.Claim(Work{Namespace: "r", Ours: true, Required: true, Placed: true, Pod: runs.UID}).Queue; got != "red" {
		t.Errorf("it names none any more, where it has to, and counts for %q", got)
	}
	if got := claim(""); got != "red" {
		t.Errorf("it names none any more, and counts for %q", got)
	}
	b.SetNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "r", Annotations: map[string]string{v1alpha1.AnnotationDefaultQueue: "open"}}})
	if got := claim(""); got != "red" {
		t.Errorf("it names none any more, the namespace has a default queue, and it counts for %q", got)
	}
	b.KeepQueue("red", time.Unix(1000, 0))
	if got := claim(""); got != "red" {
		t.Errorf("it names none any more, its queue was deleted, and it counts for %q", got)
	}
	if got := claim("open"); got != "open" {
		t.Errorf("it names a queue that it may use, and counts for %q", got)
	}
	b.DeleteQueue("red")
	if got := claim("nosuch"); got != "nosuch" {
		t.Errorf("its queue is gone, and it counts for %q", got)
	}
}

// TestMisnamed checks a running pod that names a queue that cannot hold work. As long as the pod
// names such a queue, a change of any queue must make callers charge pods again. After the pod
// names a usable queue or no queue, a change of a queue must not have this effect.
func TestMisnamed(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]Work{
		"a queue that it may use": {Named: "open"},
		"a queue for others":      {Named: "blue"},
		"none":                    {},
		"none, and it needs one":  {Required: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := tenants()
			runs := pod("a", 1, "n")
			claim := func(w Work) {
				w.Namespace, w.Ours, w.Placed, w.Pod = "r", true, true, runs.UID
				b.Charge(runs, b.Claim(w).Queue)
			}
			claim(Work{Named: "red"})
			claim(Work{Named: "nosuch"})
			if _, confining := b.SetQueue(queueUnder("open", "", quota(3))); !confining {
				t.Error("It names a queue that does not exist, and a change of queues does not concern it")
			}
			claim(after)
			if _, confining := b.SetQueue(queueUnder("open", "", quota(4))); confining {
				t.Error("It names no such queue any more, and each change of queues concerns it")
			}
		})
	}
}

// TestAccessFollows checks that each change of access is reported and appears in the status of the
// queue.
func TestAccessFollows(t *testing.T) {
	t.Parallel()
	b := tenants()
	status := func(name string) v1alpha1.QueueStatus {
		q := queueUnder(name, "")
		s := b.Snapshot(gpus)
		s.SetStatus(q, b.WholeGroups(s))
		return q.Status
	}
	if st := status("inherits"); st.NamespaceSelector == nil || *st.MaxPriority != 10 || !slices.Equal(st.PriorityClasses, []string{"low"}) {
		t.Errorf("the status is %+v", st)
	}
	if st := status("open"); st.NamespaceSelector != nil || st.MaxPriority != nil || len(st.PriorityClasses) > 0 {
		t.Errorf("a queue for all says %+v", st)
	}
	ready := status("typo").Conditions[0]
	if ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonMaxPriorityUnknown {
		t.Errorf("a queue without its class says %+v", ready)
	}
	if !b.SetClass("missing", 7) || b.SetClass("missing", 7) {
		t.Error("a class that has come is not news, or one that has not changed is")
	}
	if st := status("typo"); st.Conditions[0].Status != metav1.ConditionTrue || *st.MaxPriority != 7 {
		t.Errorf("with its class it says %+v", st)
	}
	if !b.DeleteClass("missing") || status("typo").MaxPriority != nil {
		t.Error("a class that has gone is no news, or still there")
	}
	if b.SetNamespace(namespaceOf("r", "red", "")) || !b.SetNamespace(namespaceOf("r", "blue", "")) || !b.SetNamespace(namespaceOf("r", "blue", "open")) {
		t.Error("news of a namespace is not told from none")
	}
	if _, confining := b.SetQueue(queueUnder("opens", "", forTeams(), upTo("high"))); !confining {
		t.Error("a queue that confines the access changes nothing")
	}
	if _, confining := b.SetQueue(queueUnder("open", "", quota(3))); confining {
		t.Error("a queue that confines no access changes that")
	}
	if _, confining := b.SetQueue(queueUnder("open", "org")); !confining {
		t.Error("a queue is below one that confines the access, and that changes nothing")
	}
	if !b.DeleteQueue("org") {
		t.Error("a queue that says so for those below has gone, and that changes nothing")
	}
}

// TestNoTenantCountsElsewhere makes changes in random order. Waiting work must count for a queue
// only if the queue permits its namespace and priority. Running work must count only for a queue
// that permitted it at some time.
func TestNoTenantCountsElsewhere(t *testing.T) {
	t.Parallel()
	teams := []string{"red", "blue"}
	rapid.Check(t, func(t *rapid.T) {
		b := NewLedger()
		b.SetClass("mid", 100)
		selects, bound := map[string]string{}, map[string]bool{}
		of := map[string]string{}
		allowed := map[types.UID]map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			team := rapid.SampledFrom(teams).Draw(t, "team")
			name := rapid.SampledFrom([]string{"q", "p"}).Draw(t, "queue")
			namespace := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				change := []func(*v1alpha1.QueueSpec){forTeams(team)}
				if bound[name] = rapid.Bool().Draw(t, "bound"); bound[name] {
					change = append(change, upTo("mid"))
				}
				b.SetQueue(queueUnder(name, "", change...))
				selects[name] = team
			case 1:
				b.SetNamespace(namespaceOf(namespace, team, ""))
				of[namespace] = team
			case 2:
				uid := fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "pod"))
				p := pod(uid, 1, rapid.SampledFrom([]string{"", "n"}).Draw(t, "node"))
				w := Work{Namespace: namespace, Named: name, Priority: rapid.SampledFrom([]int32{0, 101}).Draw(t, "priority"), Placed: p.Spec.NodeName != "", Pod: p.UID}
				c := b.Claim(w)
				ok := selects[name] != "" && of[namespace] == selects[name]
				may := ok && (!bound[name] || w.Priority <= 100)
				if selects[name] == "" {
					continue
				}
				if allowed[p.UID] == nil {
					allowed[p.UID] = map[string]bool{"": true}
				}
				if ok {
					allowed[p.UID][name] = true
				}
				if (c.Bar == gang.Verdict{}) != may {
					t.Fatalf("%+v is barred by %+v, and may %t", w, c.Bar, may)
				}
				if !w.Placed && (c.Queue != "") != may {
					t.Fatalf("%+v waits, counts for %q, and may %t", w, c.Queue, may)
				}
				if !allowed[p.UID][c.Queue] {
					t.Fatalf("%+v counts for %q, which it was never allowed", w, c.Queue)
				}
				b.Charge(p, c.Queue)
			}
		}
	})
}
