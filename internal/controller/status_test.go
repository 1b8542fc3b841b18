package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

func TestScheduledCondition(t *testing.T) {
	t.Parallel()
	verdict := func(reason string) gang.Verdict { return gang.Verdict{Reason: reason, Message: "because"} }
	cases := map[string]struct {
		pods    []*corev1.Pod
		verdict gang.Verdict
		keptOut string
		want    string
		says    string
	}{
		"enough have a node":           {pods: named("p", 2, assigned), want: v1alpha1.ReasonScheduled, says: "2 members have a node, 2 are needed"},
		"enough, with those that ran":  {pods: slices.Concat(named("p", 1, assigned), named("s", 1, succeeded)), want: v1alpha1.ReasonScheduled, says: "1 of them have succeeded"},
		"too few":                      {pods: named("p", 1), want: v1alpha1.ReasonNotEnoughMembers, says: "needs 2 members and has 1"},
		"failed ones count for nobody": {pods: slices.Concat(named("p", 1), named("f", 5, failed)), want: v1alpha1.ReasonNotEnoughMembers},
		"no room":                      {pods: named("p", 2), verdict: verdict(v1alpha1.ReasonUnschedulable), want: v1alpha1.ReasonUnschedulable, says: "because"},
		"room is being made":           {pods: named("p", 2), verdict: verdict(v1alpha1.ReasonPreempting), want: v1alpha1.ReasonPreempting, says: "because"},
		"no such scheduler":            {pods: named("p", 2, func(p *corev1.Pod) { p.Spec.SchedulerName = "reprieve" }), want: v1alpha1.ReasonSchedulerNotServed, says: `"reprieve", which does not run here; name one that does, in schedulerName: ["reprieve-scheduler"]`},
		"nothing is known yet":         {pods: named("p", 2), want: v1alpha1.ReasonPending, says: "waiting for its turn"},
		"none can be tried":            {pods: named("p", 2), keptOut: "plugin X holds it back", want: v1alpha1.ReasonPending, says: "no member can be scheduled: plugin X holds it back"},
		"the verdict is out of date":   {pods: named("p", 2), verdict: verdict(v1alpha1.ReasonNotEnoughMembers), want: v1alpha1.ReasonPending},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, gangGroup(2))
			b.pods, b.gatedBy = c.pods, c.keptOut
			b.gangs.SetVerdict(gang.KeyOf(groupKey), c.verdict)
			b.reconcile()
			got := meta.FindStatusCondition(b.group().Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
			if got == nil || got.Reason != c.want || (got.Status == metav1.ConditionTrue) != (c.want == v1alpha1.ReasonScheduled) ||
				!strings.Contains(got.Message, c.says) {
				t.Errorf("The condition is %+v, want %s: %s", got, c.want, c.says)
			}
		})
	}
}

// TestWorkIsOver checks that no missing members are reported for a group whose object is finished
// and whose pods have ended.
func TestWorkIsOver(t *testing.T) {
	t.Parallel()
	over := &grouping.Group{Owner: theJob, Finished: true}
	cases := map[string]struct {
		group *grouping.Group
		pods  []*corev1.Pod
		want  string
	}{
		"it has failed":                     {over, named("f", 2, failed), v1alpha1.ReasonWorkIsOver},
		"fewer succeeded than it needed":    {over, named("s", 1, succeeded), v1alpha1.ReasonWorkIsOver},
		"as many succeeded":                 {over, named("s", 2, succeeded), v1alpha1.ReasonScheduled},
		"one is left that waits":            {over, slices.Concat(named("f", 2, failed), named("p", 1)), v1alpha1.ReasonNotEnoughMembers},
		"one is left that runs":             {over, slices.Concat(named("f", 2, failed), named("r", 1, running)), v1alpha1.ReasonNotEnoughMembers},
		"one is left that is being deleted": {over, slices.Concat(named("f", 2, failed), named("t", 1, terminating)), v1alpha1.ReasonNotEnoughMembers},
		"its object makes more":             {&grouping.Group{Owner: theJob}, named("f", 2, failed), v1alpha1.ReasonNotEnoughMembers},
		"it was not made for an object":     {nil, named("f", 2, failed), v1alpha1.ReasonNotEnoughMembers},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, gangGroup(2))
			b.pods = c.pods
			b.status.DerivedFrom(func(types.NamespacedName) (grouping.Group, bool) {
				return ptr.Deref(c.group, grouping.Group{}), c.group != nil
			})
			b.reconcile()
			got := meta.FindStatusCondition(b.group().Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
			if got == nil || got.Reason != c.want || strings.Contains(got.Message, "Job train") != (c.want == v1alpha1.ReasonWorkIsOver) {
				t.Errorf("the condition is %+v, want %s", got, c.want)
			}
		})
	}
}

// TestScheduledAndUnresolved checks that empty fields of a group are reported even if its members
// run.
func TestScheduledAndUnresolved(t *testing.T) {
	t.Parallel()
	pg := gangGroup(2)
	pg.Spec.Priority, pg.Spec.PriorityClassName = nil, ptr.To("typo")
	b := newBench(t, pg)
	b.pods = named("p", 2, running)
	b.gangs.SetUnresolved(gang.KeyOf(groupKey), gang.Verdict{Reason: v1alpha1.ReasonPriorityClassNotFound, Message: `waits for PriorityClass "typo"`})
	b.reconcile()
	got := meta.FindStatusCondition(b.group().Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
	if got == nil || got.Status != metav1.ConditionTrue || !strings.Contains(got.Message, `2 members have a node`) || !strings.Contains(got.Message, `PriorityClass "typo"`) {
		t.Errorf("The condition is %+v", got)
	}
}

// TestPodsHearFromTheirProfile checks that the events about a pod come from the recorder of the
// pod's profile.
func TestPodsHearFromTheirProfile(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(3))
	batch := events.NewFakeRecorder(10)
	b.status.RecordAs(func(profile string) events.EventRecorder {
		if profile == "batch" {
			return batch
		}
		return b.events
	})
	b.pods = named("p", 2, func(pod *corev1.Pod) { pod.Spec.SchedulerName = "batch" })
	b.reconcile()
	b.step(settleDelay)
	b.reconcile()
	if got := b.told(); len(got) > 0 || len(batch.Events) != 2 {
		t.Errorf("%d events in the profile's name, want 2; others are %q", len(batch.Events), got)
	}
}

func TestCountsAndStartTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	b.pods = slices.Concat(named("p", 3), named("a", 1, assigned), named("r", 1, running), named("t", 4, running, terminating),
		named("s", 1, succeeded), named("f", 1, failed))
	b.reconcile()
	st := b.group().Status
	if st.Pending != 3 || st.Scheduled != 2 || st.Running != 1 || st.Terminating != 4 || st.Finished != 2 {
		t.Errorf("Counts are %+v", st)
	}
	if st.StartTime != nil {
		t.Errorf("Started at %v with one member running", st.StartTime)
	}
}

// TestNoMembers checks that a group is reported once when it has had no pods for a minute. After it
// has had pods, it can be reported again.
func TestNoMembers(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	for i, step := range []struct {
		pods  int
		after time.Duration
		want  bool
	}{
		{0, 0, false}, {0, 59 * time.Second, false}, {0, time.Second, true}, {0, time.Hour, false},
		{1, 0, false}, {0, time.Hour, false}, {0, 30 * time.Second, false}, {0, 31 * time.Second, true},
	} {
		b.step(step.after)
		b.pods = named("p", step.pods)
		again := b.reconcile()
		told := strings.Join(b.told(), "; ")
		if got := strings.Contains(told, "Warning NoMembers"); got != step.want || step.want && !strings.Contains(told, "reprieve.dev/pod-group: ") {
			t.Errorf("step %d: told %q, want it: %v", i, told, step.want)
		}
		if i == 1 && again != time.Second {
			t.Errorf("it is looked at again after %s, want a second", again)
		}
	}
	// A new leader sees from the status that the group has been empty for a long time.
	pg := b.group()
	meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled).LastTransitionTime = metav1.NewTime(b.clock.Now())
	again := newBench(t, pg)
	again.clock.SetTime(b.clock.Now().Add(time.Hour))
	again.reconcile()
	again.step(time.Hour)
	again.reconcile()
	if got := again.told(); len(got) > 0 {
		t.Errorf("told again: %q", got)
	}
}

// TestNoMembersOfDerived checks that a derived group without pods is not reported. Users cannot add
// pods to such a group by a label.
func TestNoMembersOfDerived(t *testing.T) {
	t.Parallel()
	pg := gangGroup(2)
	pg.Labels = map[string]string{labelManagedBy: managedBy}
	b := newBench(t, pg)
	b.reconcile()
	b.step(time.Hour)
	b.reconcile()
	if told := b.told(); len(told) > 0 {
		t.Errorf("told %q", told)
	}
}

// TestPhase checks the phase of a gang of two in each state.
func TestPhase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pods      []*corev1.Pod
		disrupted bool
		want      v1alpha1.PodGroupPhase
	}{
		"without members":        {want: v1alpha1.PodGroupPending},
		"waiting":                {pods: named("p", 2), want: v1alpha1.PodGroupPending},
		"placed":                 {pods: slices.Concat(named("a", 1, assigned), named("r", 1, running)), want: v1alpha1.PodGroupScheduled},
		"running":                {pods: slices.Concat(named("r", 2, running), named("p", 1)), want: v1alpha1.PodGroupRunning},
		"running, one done":      {pods: slices.Concat(named("r", 1, running), named("s", 1, succeeded)), want: v1alpha1.PodGroupRunning},
		"short of one":           {pods: named("r", 1, running), want: v1alpha1.PodGroupPending},
		"done":                   {pods: named("s", 2, succeeded), want: v1alpha1.PodGroupSucceeded},
		"done, and surplus runs": {pods: slices.Concat(named("s", 2, succeeded), named("r", 1, running)), want: v1alpha1.PodGroupRunning},
		"being preempted":        {pods: named("r", 2, running), disrupted: true, want: v1alpha1.PodGroupDisrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := gangGroup(2)
			if c.disrupted {
				pg.Status.Disruption = &v1alpha1.PodGroupDisruption{}
			}
			b := newBench(t, pg)
			b.pods = c.pods
			b.reconcile()
			if got := b.group().Status.Phase; got != c.want {
				t.Errorf("phase %s, want %s", got, c.want)
			}
		})
	}
}

// headAndWorkers is a gang.Roles for a gang of one head and two workers. The name of a pod begins
// with its role.
type headAndWorkers struct{}

func (headAndWorkers) MinCount(types.NamespacedName) (int, bool) { return 3, true }

func (headAndWorkers) RoleOf(pod *corev1.Pod) (string, int) {
	role, _, _ := strings.Cut(pod.Name, "-")
	return role, map[string]int{"head": 1, "worker": 2}[role]
}

// TestDegradedRole checks a gang that needs a head and two workers. It has lost the head and has
// three workers, so it has minCount members. But it must be degraded and not scheduled.
func TestDegradedRole(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, headAndWorkers{}, gangGroup(3))
	workers := named("worker", 3, running)
	b.pods = slices.Concat(workers, named("head", 1, running))
	b.reconcile()
	if got := b.group().Status.Phase; got != v1alpha1.PodGroupRunning {
		t.Fatalf("phase %s", got)
	}
	b.pods = slices.Concat(workers, named("head", 1))
	b.reconcile()
	b.step(engine.ShortTime)
	b.reconcile()
	st := b.group().Status
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionDegraded)
	if want := "3 members have a node, 3 are needed; head has 0 of 1; 1 waits for a node"; c == nil || c.Message != want {
		t.Errorf("condition %+v, want the message %q", c, want)
	}
	if st.Phase != v1alpha1.PodGroupDegraded || meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionPodGroupScheduled) {
		t.Errorf("phase %s, conditions %+v", st.Phase, st.Conditions)
	}
}

// TestDegradedCondition checks the condition Degraded of a gang of two. The gang loses a member,
// another process becomes the leader, and the member is replaced.
func TestDegradedCondition(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	look := func(step string, phase v1alpha1.PodGroupPhase, status metav1.ConditionStatus, says string) *metav1.Condition {
		t.Helper()
		b.reconcile()
		st := b.group().Status
		c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionDegraded)
		if st.Phase != phase || (c == nil) != (status == "") || c != nil && (c.Status != status || !strings.Contains(c.Message, says)) {
			t.Errorf("%s: phase %s, condition %+v; want phase %s, condition %s: %q", step, st.Phase, c, phase, status, says)
		}
		return c
	}
	whole := named("r", 2, running)
	b.pods = slices.Concat(whole[:1], named("p", 1))
	look("one of two placed", v1alpha1.PodGroupPending, "", "")
	b.pods = whole
	look("whole", v1alpha1.PodGroupRunning, "", "")
	b.pods = slices.Concat(whole[:1], named("p", 1))
	lost := b.clock.Now()
	if again := b.reconcile(); again <= 0 || again > engine.ShortTime {
		t.Errorf("just lost: looked at again after %s, want %s at most", again, engine.ShortTime)
	}
	look("just lost", v1alpha1.PodGroupPending, "", "")
	b.step(engine.ShortTime)
	c := look("degraded", v1alpha1.PodGroupDegraded, metav1.ConditionTrue, "1 members have a node, 2 are needed; 1 waits for a node")
	if told := b.told(); !slices.ContainsFunc(told, func(e string) bool { return strings.Contains(e, "Warning Degraded") }) {
		t.Errorf("told %q, want an event Degraded", told)
	}
	if c != nil && !c.LastTransitionTime.Time.Equal(lost.Truncate(time.Second)) {
		t.Errorf("degraded since %v, want %v", c.LastTransitionTime, lost)
	}
	// Another process becomes the leader. It reads the time from the status.
	next := newBench(t, b.group())
	next.pods = b.pods
	next.clock.SetTime(b.clock.Now().Add(time.Minute))
	b = next
	if c := look("another process", v1alpha1.PodGroupDegraded, metav1.ConditionTrue, "1 members"); c != nil && !c.LastTransitionTime.Time.Equal(lost.Truncate(time.Second)) {
		t.Errorf("another process: degraded since %v, want %v", c.LastTransitionTime, lost)
	}
	if told := b.told(); slices.ContainsFunc(told, func(e string) bool { return strings.Contains(e, "Degraded") }) {
		t.Errorf("told again: %q", told)
	}
	b.pods = slices.Concat(whole[:1], named("a", 1, assigned))
	look("whole again", v1alpha1.PodGroupScheduled, metav1.ConditionFalse, "lacks no members")
}

// TestStartTime checks the start time of a gang of two while its members change. Each change is one
// hour after the previous change. The first is at 1000 s.
func TestStartTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	old := func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.Unix(1000, 0) }
	late := func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.Unix(5*3600, 0) }
	for hour, step := range []struct {
		are  string
		pods []*corev1.Pod
		want int64
	}{
		{are: "one runs", pods: slices.Concat(named("r", 1, running, old), named("a", 1, assigned, old))},
		{are: "both run", pods: named("r", 2, running, old), want: 1000 + 3600},
		{are: "both still run", pods: named("r", 2, running, old), want: 1000 + 3600},
		{are: "one has succeeded", pods: slices.Concat(named("r", 1, running, old), named("s", 1, succeeded)), want: 1000 + 3600},
		{are: "one goes", pods: slices.Concat(named("r", 1, running, old), named("t", 1, running, terminating))},
		{are: "another has come", pods: slices.Concat(named("r", 1, running, old), named("n", 1, running, late)), want: 1000 + 5*3600},
		{are: "all have been replaced, unseen", pods: named("m", 2, running, func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.Unix(1000+5*3600+1, 0)
		}), want: 1000 + 6*3600},
		{are: "those before are still going", pods: slices.Concat(named("t", 2, running, terminating), named("o", 2, running, func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.Unix(1000+6*3600+1, 0)
		})), want: 1000 + 7*3600},
		{are: "all have succeeded", pods: named("s", 2, succeeded)},
		{are: "all wait", pods: named("p", 2)},
	} {
		if hour > 0 {
			b.step(time.Hour - engine.ShortTime)
		}
		b.pods = step.pods
		b.reconcile()
		b.step(engine.ShortTime)
		b.reconcile()
		switch got := b.group().Status.StartTime; {
		case got == nil && step.want != 0:
			t.Errorf("%s: not started, want %d", step.are, step.want)
		case got != nil && got.Unix() != step.want:
			t.Errorf("%s: started at %d, want %d", step.are, got.Unix(), step.want)
		}
	}
}

// TestStartTimeOutlivesAMoment checks that the start time stays if a member is first seen as not
// running, and a moment later as succeeded.
func TestStartTimeOutlivesAMoment(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	for _, step := range []struct {
		are  string
		pods []*corev1.Pod
		want int64
	}{
		{are: "both run", pods: named("r", 2, running), want: 1000},
		{are: "one runs no more", pods: named("r", 1, running), want: 1000},
		{are: "it has succeeded", pods: slices.Concat(named("r", 1, running), named("r", 2, succeeded)[1:]), want: 1000},
		{are: "another one beyond that runs on", pods: slices.Concat(named("late", 1, running, func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.Unix(2000, 0)
		}), named("r", 2, succeeded)), want: 1000},
		{are: "two others run on", pods: named("q", 2, running), want: 1000},
		{are: "one of them goes", pods: named("q", 1, running), want: 1000},
		{are: "and is replaced at once", pods: slices.Concat(named("q", 1, running), named("new", 1, running)), want: 1003},
		{are: "all are ahead of the clock", pods: named("f", 2, running, func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.Unix(5000, 0)
		}), want: 5000},
		{are: "and still are", pods: named("f", 2, running, func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.Unix(5000, 0)
		}), want: 5000},
	} {
		b.pods = step.pods
		b.reconcile()
		if got := b.group().Status.StartTime; got == nil || got.Unix() != step.want {
			t.Errorf("%s: started at %v, want %d", step.are, got, step.want)
		}
		b.step(engine.ShortTime / 2)
	}
}

// TestStartTimeOfWhatWasNotSeen checks the start time after changes of members while no process was
// running.
func TestStartTimeOfWhatWasNotSeen(t *testing.T) {
	t.Parallel()
	scheduled := func(at int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.Unix(at, 0)
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(at, 0)}}
		}
	}
	before := named("r", 2, running, scheduled(400))
	replaced := slices.Concat(before[:1], named("n", 1, running, scheduled(900)))
	for name, c := range map[string]struct {
		// seen is true if this process has already seen the gang with enough running members.
		seen bool
		pods []*corev1.Pod
		want int64
	}{
		"the same members":                             {pods: before, want: 500},
		"one that was lost has been replaced":          {pods: replaced, want: 900},
		"one past minCount has come":                   {pods: slices.Concat(before, named("n", 1, running, scheduled(900))), want: 500},
		"one has succeeded":                            {pods: slices.Concat(before[:1], named("s", 1, succeeded, scheduled(400))), want: 500},
		"it is not known when they were scheduled":     {pods: named("r", 2, running), want: 500},
		"the same members, seen before":                {seen: true, pods: before, want: 500},
		"one was lost and replaced between two looks":  {seen: true, pods: replaced, want: 900},
		"one past minCount has come between two looks": {seen: true, pods: slices.Concat(before, named("n", 1, running, scheduled(900))), want: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := gangGroup(2)
			pg.Status.StartTime = ptr.To(metav1.Unix(500, 0))
			b := newBench(t, pg)
			if c.seen {
				b.pods = before
				b.reconcile()
			}
			b.pods = c.pods
			for range 2 {
				b.reconcile()
				if got := b.group().Status.StartTime; got == nil || got.Unix() != c.want {
					t.Errorf("Started at %v, want %d", got, c.want)
				}
			}
		})
	}
}

func TestPriorityMismatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	other := func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To[int32](9) }
	find := func() *metav1.Condition {
		return meta.FindStatusCondition(b.group().Status.Conditions, v1alpha1.ConditionPodsNotMatchingPriority)
	}
	b.pods = named("p", 2)
	b.reconcile()
	if c := find(); c != nil {
		t.Errorf("Nobody differs, and the condition is %+v", c)
	}
	b.pods = slices.Concat(named("p", 1), named("odd", 2, other))
	b.reconcile()
	if c := find(); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "odd-0") {
		t.Errorf("odd-0 differs, and the condition is %+v", c)
	}
	b.pods = named("p", 2)
	b.reconcile()
	if c := find(); c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("Nobody differs any more, and the condition is %+v", c)
	}
}

func TestMembersHearOnceAndWhenItHasSettled(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(9))
	// While members are created, no member gets a report with a number that is soon outdated.
	for i := 1; i <= 3; i++ {
		b.pods = named("p", i)
		if after := b.reconcile(); after <= 0 {
			t.Error("Nobody will hear")
		}
		b.step(settleDelay / 2)
	}
	if got := b.told(); len(got) != 0 {
		t.Fatalf("Told %q before it has settled", got)
	}
	b.step(settleDelay)
	b.reconcile()
	b.reconcile()
	if got := b.told(); len(got) != 3 || !strings.Contains(got[0], "needs 9 members and has 3") {
		t.Fatalf("Told %q, want each of three once", got)
	}
	// A new member changes the number in the message. Only the new member gets the report now.
	b.pods = named("p", 4)
	b.reconcile()
	b.step(settleDelay)
	after := b.reconcile()
	if got := b.told(); len(got) != 1 || !strings.Contains(got[0], "has 4") {
		t.Fatalf("Told %q, want the newcomer", got)
	}
	b.step(after)
	b.reconcile()
	if got := b.told(); len(got) != 3 {
		t.Fatalf("Told %q, want the other three", got)
	}
	// The reason changes, so all members get a report.
	b.pods = named("p", 9)
	b.gangs.SetVerdict(gang.KeyOf(groupKey), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: "no room"})
	b.reconcile()
	b.step(settleDelay)
	b.reconcile()
	if got := b.told(); len(got) != 9 {
		t.Fatalf("Told %q, want all nine", got)
	}
}

func TestMembersHearThoughTheMessageKeepsChanging(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	b.pods = named("p", 2)
	heard := 0
	for i := range 200 {
		b.gangs.SetVerdict(gang.KeyOf(groupKey), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: strings.Repeat("x", i)})
		b.reconcile()
		heard += len(b.told())
		b.step(settleDelay / 4)
	}
	// Each of the two members gets one report in these 50 seconds.
	if heard != 2 {
		t.Errorf("Two members heard %d times", heard)
	}
}

// TestMembersHearThatRoomIsMade checks that members get an event about evictions only if the
// evictions take long.
func TestMembersHearThatRoomIsMade(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	b.pods = named("p", 2)
	for i := range 4 {
		b.gangs.SetVerdict(gang.KeyOf(groupKey), gang.Verdict{Reason: v1alpha1.ReasonPreempting, Message: strings.Repeat("x", i)})
		if after := b.reconcile(); after <= 0 || after > makingDelay {
			t.Errorf("Looks again after %v", after)
		}
		if got := b.told(); len(got) != 0 {
			t.Errorf("Told %q while room is made", got)
		}
		b.step(makingDelay / 4)
	}
	b.reconcile()
	if got := b.told(); len(got) != 2 || !strings.Contains(got[0], v1alpha1.ReasonPreempting) {
		t.Errorf("Told %q when it takes long", got)
	}
}

func TestMembersHearThatThereIsNoPodGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pods = slices.Concat(named("p", 2), named("r", 1, running))
	b.reconcile()
	b.step(settleDelay)
	b.reconcile()
	if got := b.told(); len(got) != 2 || !strings.Contains(got[0], "PodGroup ns/g does not exist") {
		t.Errorf("Told %q", got)
	}
	b.pods = nil
	b.reconcile()
	if len(b.status.told) != 0 {
		t.Error("What members heard that have gone is remembered")
	}
}

func TestNobodyHearsOfWhatPasses(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	b.pods = named("p", 2)
	b.reconcile()
	b.step(time.Hour)
	if after := b.reconcile(); after != 0 || len(b.told()) != 0 {
		t.Errorf("Told of a gang that waits for its turn, again after %v", after)
	}
}
