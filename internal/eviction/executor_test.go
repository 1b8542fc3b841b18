package eviction

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

func TestEvictionWritesEverythingDownBeforeItTouchesPods(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(append(whole("g"), whole("h")...), pod("single"), pod("urgent-0"))...)
	if got := b.evict(order(victim("g", "g-0", "g-1"), victim("h", "h-0", "h-1"), victim("single"))); got.Err != nil || len(got.Begun) > 0 || got.Unwanted {
		t.Fatalf("It came to %+v", got)
	}
	at := func(call string) int { return slices.Index(b.calls, call) }
	if at("nominate urgent-0") != 0 || max(at("list g"), at("list h")) != 2 {
		t.Errorf("Calls are %q, want the nomination and the lists first", b.calls)
	}
	for _, name := range []string{"g-0", "g-1", "h-0", "h-1", "single"} {
		if mark, del := at("mark "+name), at("delete "+name); mark < 3 || del < mark {
			t.Errorf("%s is marked as call %d and deleted as call %d", name, mark, del)
		}
	}
	b.expectPods("urgent-0")
	if got := b.pod("urgent-0").Status.NominatedNodeName; got != "n" {
		t.Errorf("The preemptor is nominated for %q", got)
	}
	pg := b.group("g")
	d, says := pg.Status.Disruption, []string{"PodGroup ns/urgent (priority 9)", "LowerPriority", "3"}
	if d == nil || !slices.Equal(d.Pods, []v1alpha1.DisruptedPod{{Name: "g-0", UID: "uid-g-0"}, {Name: "g-1", UID: "uid-g-1"}}) ||
		d.Preemptor != (v1alpha1.DisruptionPreemptor{Kind: v1alpha1.PreemptorPodGroup, Namespace: "ns", Name: "urgent", UID: "uid-urgent"}) ||
		d.Time.Unix() != 1000 || d.Rule != "LowerPriority" {
		t.Errorf("The group's list is %+v", d)
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionDisruptionTarget)
	for _, phrase := range says {
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, phrase) || c.Message != d.Message {
			t.Errorf("The group's condition is %v", c)
		}
	}
	for _, action := range b.pods.Actions() {
		if d, ok := action.(clienttesting.DeleteActionImpl); ok {
			p := d.DeleteOptions.Preconditions
			if p == nil || p.UID == nil || *p.UID != uidOf(d.Name) || d.DeleteOptions.GracePeriodSeconds != nil {
				t.Errorf("%s is deleted with %+v", d.Name, d.DeleteOptions)
			}
		}
	}
	// Five pods, two groups and the preemptor get one event each.
	if got := b.recorded(); len(got) != 8 {
		t.Errorf("Events are %q", got)
	}
	if got := b.counted("goroutines_execution_total", "preemption", "success"); got != 1 {
		t.Errorf("%v successes are counted", got)
	}
	if got := b.counted("preemption_victims", "", ""); got != 5 {
		t.Errorf("%v victims are counted", got)
	}
	slices.Sort(b.done)
	if !slices.Equal(b.done, []string{"g", "h"}) {
		t.Errorf("It has done with %v", b.done)
	}
}

func TestEvictionOfWhatHasGoneAlready(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "g-0", errors.New("the UID in the precondition"))
	cases := map[string]func(*bench){
		"pods that do not exist":                 func(*bench) {},
		"pods of the same name, at the mark":     func(b *bench) { b.failing(conflict, "mark") },
		"pods of the same name, at the deletion": func(b *bench) { b.failing(conflict, "delete") },
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, group("g"), pod("urgent-0"))
			prepare(b)
			if err := b.evict(order(victim("g", "g-0", "g-1"), victim("single"))).Err; err != nil {
				t.Errorf("Failed: %v", err)
			}
			for _, e := range b.recorded() {
				if strings.Contains(e, "Preempted") {
					t.Errorf("Told of an eviction that did not happen: %s", e)
				}
			}
		})
	}
}

// TestEvictionThatIsOutOfDate checks that no victim changes if the decision is outdated, and that
// this does not count as a failure.
func TestEvictionThatIsOutOfDate(t *testing.T) {
	t.Parallel()
	another := group("g")
	another.UID = "another"
	cases := map[string]struct {
		objects      []client.Object
		wants        func() bool
		wantUnwanted bool
	}{
		"the victims' group has gone":          {objects: []client.Object{pod("urgent-0")}},
		"the victims' group has been replaced": {objects: []client.Object{another, pod("urgent-0")}},
		// The scheduler does not know yet that the preemptor was deleted. It retries as after a
		// failure.
		"the preemptor has gone":                   {objects: []client.Object{group("g")}},
		"the preemptor has gone and that is known": {objects: []client.Object{group("g")}, wants: wantedFor(0), wantUnwanted: true},
		"the preemptor has no more use for it":     {objects: []client.Object{group("g"), pod("urgent-0")}, wants: wantedFor(0), wantUnwanted: true},
		"the preemptor has none after the listing": {objects: []client.Object{group("g"), pod("urgent-0")}, wants: wantedFor(1), wantUnwanted: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(c.objects, pod("g-0"), pod("g-1"), pod("single"))...)
			b.scheduler.wants = c.wants
			got := b.evict(order(victim("g", "g-0", "g-1"), victim("single")))
			if !errors.Is(got.Err, ErrOutdated) || len(got.Begun) > 0 || got.Unwanted != c.wantUnwanted {
				t.Errorf("It came to %+v, want it outdated, unwanted: %t", got, c.wantUnwanted)
			}
			if got := slices.Concat(b.made("mark"), b.made("delete")); len(got) > 0 {
				t.Errorf("Calls are %q", got)
			}
			if events := b.recorded(); len(events) > 0 {
				t.Errorf("Events are %q", events)
			}
			if got := b.counted("goroutines_execution_total", "preemption", "abandoned"); got != 1 {
				t.Errorf("%v are counted as abandoned", got)
			}
			if len(c.objects) == 2 && c.objects[0] != client.Object(another) && len(b.listed("g")) > 0 {
				t.Errorf("The list is %v", b.listed("g"))
			}
		})
	}
}

// wantedFor returns a function that returns true in its first calls and false afterwards. times is
// the number of calls that return true.
func wantedFor(times int) func() bool {
	var mu sync.Mutex
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		times--
		return times >= 0
	}
}

// TestEvictionThatFailsBeforeTheFirstDelete checks that a failure before the first delete evicts no
// pod, and that all intents are withdrawn.
func TestEvictionThatFailsBeforeTheFirstDelete(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fails []string
		err   error
		says  string
	}{
		"at the nomination":                    {fails: []string{"nominate"}, err: errForbidden, says: "nominate pod ns/urgent-0"},
		"at the first list":                    {fails: []string{"list g"}, err: errForbidden, says: "mark PodGroup ns/g"},
		"at the second list":                   {fails: []string{"list h"}, err: errForbidden, says: "mark PodGroup ns/h"},
		"at a list that has come through":      {fails: []string{"list h"}, err: errAfter{errLost}, says: "mark PodGroup ns/h"},
		"at all pods' conditions":              {fails: []string{"mark"}, err: errLost, says: "evict pod ns/"},
		"at all deletions, which are refused":  {fails: []string{"delete"}, err: errForbidden, says: "evict pod ns/"},
		"at all deletions, by too many of all": {fails: []string{"delete"}, err: apierrors.NewTooManyRequests("later", 1), says: "evict pod ns/"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(append(whole("g"), whole("h")...), pod("single"), pod("urgent-0"))...)
			b.failing(c.err, c.fails...)
			got := b.evict(order(victim("g", "g-0", "g-1"), victim("h", "h-0", "h-1"), victim("single")))
			if err := got.Err; err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrOutdated) || got.Unwanted {
				t.Errorf("Failed with %v, unwanted: %t, want it to say %q", err, got.Unwanted, c.says)
			}
			if len(got.Begun) > 0 {
				t.Errorf("%v have begun to go", got.Begun)
			}
			b.expectPods("g-0", "g-1", "h-0", "h-1", "single", "urgent-0")
			for _, name := range []string{"g", "h"} {
				if got := b.listed(name); len(got) > 0 || strings.HasPrefix(b.target(name), "True") {
					t.Errorf("%s lists %v and is a target: %s", name, got, b.target(name))
				}
			}
			events := b.recorded()
			if len(events) != 1 || !strings.Contains(events[0], "Warning PreemptionFailed") || !strings.Contains(events[0], c.says) {
				t.Errorf("Events are %q", events)
			}
			if got := b.counted("goroutines_execution_total", "preemption", "error"); got != 1 {
				t.Errorf("%v failures are counted", got)
			}
		})
	}
}

// TestEvictionThatFailsLater checks a failure after the first delete. A group with a delete keeps
// its intent, and the intents of the other groups are withdrawn.
func TestEvictionThatFailsLater(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fails     string
		err       error
		wantBegun []types.UID
		wantPods  []string
		// wantListed lists the groups that keep their intent.
		wantListed []string
	}{
		"at the second pod of a group": {
			fails: "delete g-1", err: errForbidden,
			wantBegun: []types.UID{"uid-g-0", "uid-g-1"}, wantListed: []string{"g"},
		},
		"at a pod, in an unknown way": {
			fails: "delete g-0", err: errLost,
			wantBegun: []types.UID{"uid-g-0", "uid-g-1"}, wantListed: []string{"g"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The number of units is much larger than maxParallel. So most units have not begun
			// when the first call fails.
			objects := append(whole("g"), pod("urgent-0"))
			victims := append(victims("h", 30), victim("g", "g-0", "g-1"))
			slices.Reverse(victims)
			for _, v := range victims[1:] {
				objects = append(objects, whole(v.Name)...)
			}
			b := newBench(t, objects...)
			// All other calls wait until the call that fails.
			failed, first := make(chan struct{}), make(chan struct{})
			b.executor.remover.pods = gated{b.pods, func(call string) {
				switch {
				case strings.HasPrefix(call, "mark h"):
					<-failed
				case call == "mark g-1" && c.fails == "delete g-1":
					<-first
				}
			}}
			b.fail = func(call string) error {
				switch {
				case strings.HasPrefix(call, "mark h"):
					return errForbidden
				case call == c.fails:
					defer close(failed)
					return c.err
				case call == "delete g-0":
					close(first)
				}
				return nil
			}
			got := b.evict(order(victims...))
			if got.Err == nil {
				t.Fatal("It does not fail")
			}
			if begun := got.Begun.UnsortedList(); !sameElements(begun, c.wantBegun) {
				t.Errorf("%v have begun, want %v", begun, c.wantBegun)
			}
			for _, v := range victims {
				if got, want := len(b.listed(v.Name)) > 0, slices.Contains(c.wantListed, v.Name); got != want {
					t.Errorf("%s is on record: %t, want %t", v.Name, got, want)
				}
			}
		})
	}
}

func sameElements[T ~string](a, b []T) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// TestSinglePodsThatWereNotReachedStay checks that pods after the failed call stay. The outcome
// lists the pods before the failed call as begun.
func TestSinglePodsThatWereNotReachedStay(t *testing.T) {
	t.Parallel()
	b := newBench(t, pod("urgent-0"), pod("a"), pod("b"))
	reached := make(chan struct{})
	b.executor.remover.pods = gated{b.pods, func(call string) {
		if call == "mark b" {
			<-reached
		}
	}}
	b.fail = func(call string) error {
		switch call {
		case "delete a":
			close(reached)
		case "delete b":
			return errForbidden
		}
		return nil
	}
	got := b.evict(order(victim("a"), victim("b")))
	if got.Err == nil || !sameElements(got.Begun.UnsortedList(), []types.UID{"uid-a"}) {
		t.Errorf("Failed with %v, %v have begun", got.Err, got.Begun)
	}
	b.expectPods("urgent-0", "b")
	// The result of this delete is unknown, so the outcome must not list the pod as begun. If the
	// pod does terminate, the scheduler sees this in the pod's status.
	b = newBench(t, pod("urgent-0"), pod("a"))
	b.failing(errLost, "delete a")
	if got := b.evict(order(victim("a"))); got.Err == nil || got.Begun.Has("uid-a") {
		t.Errorf("Failed with %v, and a pod is said to go that may stay: %v", got.Err, got.Begun)
	}
}

// TestVictimThatHasEnded checks that a victim that has finished by itself is not deleted. The other
// victims are evicted.
func TestVictimThatHasEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("urgent-0"), pod("a"))...)
	b.scheduler.hasEnded = func(victim string) bool { return victim == "a" || victim == "g-1" }
	got := b.evict(order(victim("g", "g-0", "g-1"), victim("a")))
	if got.Err != nil {
		t.Errorf("It came to %+v", got)
	}
	b.expectPods("urgent-0", "a", "g-1")
	if marked := b.made("mark"); !slices.Equal(marked, []string{"mark g-0"}) {
		t.Errorf("The marked pods are %q, want only the one that has not ended", marked)
	}
}

// TestUnwantedInTheMiddle checks that no further unit begins after the preemptor was deleted.
func TestUnwantedInTheMiddle(t *testing.T) {
	t.Parallel()
	objects := []client.Object{pod("urgent-0")}
	all := victims("g", 60)
	for _, v := range all {
		objects = append(objects, whole(v.Name)...)
	}
	b := newBench(t, objects...)
	const first = 5
	b.scheduler.wants = func() bool {
		begun := sets.New[string]()
		for _, call := range b.made("delete") {
			begun.Insert(strings.TrimSuffix(strings.TrimSuffix(call, "-0"), "-1"))
		}
		return begun.Len() < first
	}
	got := b.evict(order(all...))
	if !errors.Is(got.Err, ErrOutdated) || !got.Unwanted {
		t.Fatalf("It came to %+v", got)
	}
	whole, half := 0, 0
	for _, v := range all {
		left := 0
		for _, p := range v.Pods {
			if b.pod(p.Name) != nil {
				left++
			}
		}
		listed := len(b.listed(v.Name)) > 0
		if listed != (left < 2) || listed != got.Begun.Has(types.UID(v.Pods[0].UID)) {
			t.Errorf("%s: %d pods are left, on record: %t, begun: %t", v.Name, left, listed, got.Begun.Has(types.UID(v.Pods[0].UID)))
		}
		switch left {
		case 0:
			whole++
		case 1:
			half++
		}
	}
	if n := whole + half; n < first || n > first+maxParallel {
		t.Errorf("%d groups have gone and %d are under way, want %d and those that were on their way by then", whole, half, first)
	}
}

// TestUnwantedOnceMarked checks a preemptor that stops needing the order while the condition of a
// victim is written. No victim is deleted.
func TestUnwantedOnceMarked(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("single"), pod("urgent-0"))...)
	b.scheduler.wants = func() bool { return len(b.made("mark")) == 0 }
	got := b.evict(order(victim("g", "g-0", "g-1"), victim("single")))
	if !errors.Is(got.Err, ErrOutdated) || len(got.Begun) > 0 || !got.Unwanted {
		t.Errorf("It came to %+v, want it outdated and unwanted", got)
	}
	if got := b.made("delete"); len(got) > 0 {
		t.Errorf("Calls are %q", got)
	}
	if got := b.listed("g"); len(got) > 0 {
		t.Errorf("The list is %v", got)
	}
}

func TestEvictionOfVictimsThatAreNotBound(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(append(whole("g"), whole("h")...), pod("single"), pod("urgent-0"))...)
	b.scheduler.turnBack = func(p *corev1.Pod) bool { return slices.Contains([]string{"single", "g-0", "h-0", "h-1"}, p.Name) }
	if err := b.evict(order(victim("g", "g-0", "g-1"), victim("h", "h-0", "h-1"), victim("single"))).Err; err != nil {
		t.Fatal(err)
	}
	b.expectPods("single", "g-0", "h-0", "h-1", "urgent-0")
	for _, name := range []string{"single", "g-0", "h-0", "h-1"} {
		if b.pod(name).Status.Conditions != nil {
			t.Errorf("%s, which was turned back, has conditions", name)
		}
	}
	if got := b.listed("g"); !slices.Equal(got, []string{"g-1"}) {
		t.Errorf("The list is %v, want what has to be deleted", got)
	}
	if got := b.target("h"); got != "" {
		t.Errorf("A group that nothing is deleted of is a target: %s", got)
	}
}

// TestEarlierIntentsStay checks an eviction that fails after its intent was written. Pods that are
// only in an earlier, incomplete intent stay in the intent. The pods of the failed eviction are
// removed from it.
func TestEarlierIntentsStay(t *testing.T) {
	t.Parallel()
	before := group("g")
	before.Status.Disruption = &v1alpha1.PodGroupDisruption{Message: "earlier", Pods: []v1alpha1.DisruptedPod{{Name: "old", UID: "uid-old"}, {Name: "g-0", UID: "uid-g-0"}}}
	b := newBench(t, before, pod("g-0"), pod("g-1"), pod("urgent-0"))
	b.failing(errForbidden, "delete")
	if b.evict(order(victim("g", "g-0", "g-1"))).Err == nil {
		t.Fatal("It does not fail")
	}
	if got := b.made("list g"); len(got) != 2 {
		t.Errorf("The group is written %d times, want the list and what is taken back", len(got))
	}
	if got := b.listed("g"); !slices.Equal(got, []string{"old"}) {
		t.Errorf("The list is %v", got)
	}
}

func TestEvictionEndsWithItsExecutor(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("urgent-0"))...)
	ctx, cancel := context.WithCancel(t.Context())
	b.executor.ctx = ctx
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.scheduler.turnBack = func(*corev1.Pod) bool {
		once.Do(func() { close(started) })
		<-release
		return true
	}
	b.executor.Evict(t.Context(), order(victim("g", "g-0", "g-1")), b.scheduler)
	<-started
	cancel()
	ended := make(chan struct{})
	go func() { b.executor.Wait(); close(ended) }()
	select {
	case <-ended:
		t.Error("Wait returns while an eviction is running")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	<-ended
}

// TestDurationsAreTrue checks that the measured duration is the time from the first call to the
// last call, for success and failure.
func TestDurationsAreTrue(t *testing.T) {
	t.Parallel()
	for result, err := range map[string]error{"success": nil, "error": errForbidden} {
		t.Run(result, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, pod("a"), pod("urgent-0"))
			b.fail = func(call string) error {
				b.clock.Step(time.Second)
				if strings.HasPrefix(call, "delete") {
					return err
				}
				return nil
			}
			_ = b.evict(order(victim("a")))
			if got := b.counted("goroutines_duration_seconds", "preemption", result); got != 3 {
				t.Errorf("It took %v s, want 3: one for each call", got)
			}
		})
	}
}

// TestLostWork checks the metric of lost work: the requests of the evicted pods, multiplied by
// their running time. Pods that have not started, or that were already gone, count as 0.
func TestLostWork(t *testing.T) {
	t.Parallel()
	running := func(name string, gpus string, since int64) *corev1.Pod {
		p := pod(name)
		p.Spec.Containers = []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}},
		}}
		if since > 0 {
			p.Status.StartTime = &metav1.Time{Time: time.Unix(since, 0)}
		}
		return p
	}
	all := []*corev1.Pod{running("a", "2", 900), running("b", "4", 990), running("new", "8", 0), running("gone", "1", 500)}
	objects := []client.Object{pod("urgent-0")}
	for _, p := range all[:3] {
		objects = append(objects, p)
	}
	b := newBench(t, objects...)
	o := order(victim("a"), victim("b"), victim("new"), victim("gone"))
	for _, p := range all {
		o.Victims[p.UID] = p
	}
	o.Decision.Victims[0].LostWork = 2 * 50_000
	if got := b.evict(o); got.Err != nil {
		t.Fatalf("It came to %+v", got)
	}
	// The clock of the bench is at 1000 s.
	if got, want := b.counted("preempted_resource_seconds_total", "", ""), 2.0*100+4*10; got != want {
		t.Errorf("%v GPU-seconds are lost, want %v", got, want)
	}
	if got := b.counted("lost_device_seconds_total", "", ""); got != 100 {
		t.Errorf("%v device-seconds are lost, want those of the decision, 100", got)
	}
}
