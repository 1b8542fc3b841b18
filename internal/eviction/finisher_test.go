package eviction

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// finishing is a bench with a Finisher.
type finishing struct {
	*bench
	finisher *Finisher
	informed *informed
}

func newFinishing(t *testing.T, objects ...client.Object) *finishing {
	t.Helper()
	f := &finishing{bench: newBench(t, objects...), informed: newInformed()}
	f.finisher = NewFinisher(f.executor, f.groups, corelisters.NewPodLister(f.informed.store), f.informed, func() time.Duration { return 5 * time.Minute })
	f.look(f.informed)
	return f
}

func (f *finishing) reconcile() (reconcile.Result, error) {
	f.t.Helper()
	return f.finisher.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "g"}})
}

func (f *finishing) mustReconcile() reconcile.Result {
	f.t.Helper()
	result, err := f.reconcile()
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

// disrupted returns a group with an intent to evict pods. The scheduler that wrote the intent has
// ended.
func disrupted(pods ...string) *v1alpha1.PodGroup {
	pg := group("g")
	d := &v1alpha1.PodGroupDisruption{
		Preemptor: v1alpha1.DisruptionPreemptor{Kind: v1alpha1.PreemptorPod, Namespace: "ns", Name: "urgent", UID: "uid-urgent"},
		Message:   "preempted by pod ns/urgent",
		Time:      metav1.Unix(1000, 0),
	}
	for _, name := range pods {
		d.Pods = append(d.Pods, v1alpha1.DisruptedPod{Name: name, UID: uidOf(name)})
	}
	pg.Status.Disruption = d
	setTarget(pg, metav1.ConditionTrue, v1alpha1.ReasonPreemptionByScheduler, d.Message)
	return pg
}

func terminating(p *corev1.Pod) *corev1.Pod {
	p.Finalizers = []string{"test/hold"}
	p.DeletionTimestamp = &metav1.Time{}
	return p
}

// nativeGroups is a reader that returns PodGroups as objects of scheduling.k8s.io.
type nativeGroups struct{ client.Reader }

func (n nativeGroups) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := n.Reader.Get(ctx, key, obj, opts...)
	if pg, ok := obj.(*v1alpha1.PodGroup); ok && err == nil {
		pg.APIVersion = native.Group + "/v1beta1"
	}
	return err
}

// TestTargetOfAnotherScheduler checks a DisruptionTarget condition without an intent. On a native
// PodGroup, another scheduler may have set the condition, so it stays. On a PodGroup of
// reprieve.dev, an earlier process has set it, so the Finisher ends it.
func TestTargetOfAnotherScheduler(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"scheduling.k8s.io": "True PreemptionByScheduler", "reprieve.dev": "False PreemptionByScheduler"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := disrupted()
			pg.Status.Disruption = nil
			f := newFinishing(t, pg)
			if name == native.Group {
				f.finisher.groups = nativeGroups{f.finisher.groups}
			}
			f.mustReconcile()
			if got := f.target("g"); got != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		})
	}
}

// TestFinishesWhatWasBegun checks that exactly the pods in the intent are evicted, and that the
// disruption ends when the last of them is gone.
func TestFinishesWhatWasBegun(t *testing.T) {
	t.Parallel()
	again := pod("again")
	again.UID = "another"
	f := newFinishing(t, disrupted("g-0", "g-1", "gone", "leaving", "again"),
		pod("g-0"), pod("g-1"), pod("g-new"), terminating(pod("leaving")), again)
	// The fake client ignores preconditions, so return the conflict here.
	f.fail = func(call string) error {
		if call == "mark again" {
			return apierrors.NewConflict(corev1.Resource("pods"), "again", errors.New("the UID in the precondition"))
		}
		return nil
	}
	f.mustReconcile()
	f.expectPods("g-new", "leaving", "again")
	if got := f.made("delete leaving"); len(got) > 0 {
		t.Error("A pod that is leaving is deleted again")
	}
	for _, action := range f.pods.Actions() {
		if d, ok := action.(interface {
			GetDeleteOptions() metav1.DeleteOptions
			GetName() string
		}); ok && *d.GetDeleteOptions().Preconditions.UID != uidOf(d.GetName()) {
			t.Errorf("%s is deleted with %+v", d.GetName(), d.GetDeleteOptions())
		}
	}
	if got := f.listed("g"); len(got) != 5 {
		t.Errorf("The list is %v before all have gone", got)
	}
	told := strings.Join(f.recorded(), "\n")
	if strings.Count(told, "preempted by pod ns/urgent") != 2 {
		t.Errorf("Events are %q", told)
	}
	// Further calls of Reconcile make no API call, whether the informers are up to date or not.
	before := len(f.calls)
	f.mustReconcile()
	f.look(f.informed)
	f.mustReconcile()
	if len(f.calls) != before {
		t.Errorf("Further calls are %q", f.calls[before:])
	}
	if err := f.pods.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "leaving"); err != nil {
		t.Fatal(err)
	}
	f.look(f.informed)
	f.mustReconcile()
	if f.listed("g") != nil || f.target("g") != "False PreemptionByScheduler" {
		t.Errorf("All have gone, the list is %v and the condition %s", f.listed("g"), f.target("g"))
	}
	if got := f.counted("goroutines_execution_total", "preemption_completion", "success"); got != 1 {
		t.Errorf("%v completions are counted", got)
	}
	f.clock.Step(2 * memory)
	f.mustReconcile()
	if n := len(f.executor.ledger.entries); n != 0 {
		t.Errorf("%d groups are remembered", n)
	}
}

// TestFinishedMembersAreLeftAlone checks that finished pods are not deleted. They use no resources,
// and users may need their status and logs.
func TestFinishedMembersAreLeftAlone(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, disrupted("done"), pod("done"))
	if err := f.informed.store.Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	f.informed.finished = []*corev1.Pod{pod("done")}
	f.mustReconcile()
	f.expectPods("done")
	if got := f.listed("g"); got != nil {
		t.Errorf("The list is %v", got)
	}
}

// TestUnseenPodsAreAskedFor checks that the Finisher asks the API server about pods that the
// informer has never shown.
func TestUnseenPodsAreAskedFor(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, disrupted("g-0", "g-1"))
	for _, name := range []string{"g-0", "g-1"} {
		if err := f.pods.Tracker().Add(pod(name)); err != nil {
			t.Fatal(err)
		}
	}
	f.mustReconcile()
	f.expectPods()
	f.mustReconcile()
	if got := f.listed("g"); got != nil {
		t.Errorf("The list is %v", got)
	}
}

func TestFinishingThatFails(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, disrupted("g-0", "g-1"), pod("g-0"), pod("g-1"))
	f.failing(errForbidden, "delete g-1")
	if _, err := f.reconcile(); err == nil || !strings.Contains(err.Error(), "ns/g-1") {
		t.Errorf("Failed with %v", err)
	}
	if got := f.counted("goroutines_execution_total", "preemption_completion", "error"); got != 1 {
		t.Errorf("%v failures are counted", got)
	}
	if len(f.listed("g")) != 2 {
		t.Errorf("The list is %v", f.listed("g"))
	}
	f.failing(nil)
	f.clock.Step(firstDelay)
	f.mustReconcile()
	f.expectPods()
	if got := f.made("delete g-0"); len(got) != 1 {
		t.Errorf("Calls are %q, want each pod deleted once", f.calls)
	}
}

// TestEvictionAndFinisher checks that the Finisher does nothing for a group while an execution
// works on it. After the execution has failed, the Finisher continues.
func TestEvictionAndFinisher(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, append(whole("g"), pod("urgent-0"))...)
	begun := make(chan struct{})
	f.executor.remover.pods = gated{f.pods, func(call string) {
		if call == "mark g-1" {
			<-begun
		}
	}}
	f.fail = func(call string) error {
		switch call {
		case "delete g-0":
			close(begun)
		case "mark g-1":
			return errForbidden
		}
		return nil
	}
	looked := 0
	f.scheduler.wants = func() bool {
		looked++
		if looked == 2 {
			f.mustReconcile()
			if calls := slices.Concat(f.made("mark"), f.made("delete")); len(calls) > 0 {
				t.Errorf("Calls besides the eviction's are %q", calls)
			}
		}
		return true
	}
	if err := f.evict(order(victim("g", "g-0", "g-1"))).Err; err == nil || looked < 2 {
		t.Fatalf("It does not fail, %d looks", looked)
	}
	f.failing(nil)
	f.mustReconcile()
	f.expectPods("urgent-0")
	f.look(f.informed)
	f.mustReconcile()
	if f.listed("g") != nil {
		t.Errorf("The list is %v", f.listed("g"))
	}
}

// TestLastDisruption checks that the status of a group has its last preemptor and the number of its
// preemptions.
func TestLastDisruption(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, append(whole("g"), pod("urgent-0"))...)
	last := func() *v1alpha1.LastDisruption { return f.group("g").Status.LastDisruption }
	f.failing(errForbidden, "mark g-0", "mark g-1")
	if err := f.evict(order(victim("g", "g-0", "g-1"))).Err; err == nil || last() != nil {
		t.Errorf("a preemption that is withdrawn (%v) is kept: %+v", err, last())
	}
	f.failing(nil)
	if err := f.evict(order(victim("g", "g-0", "g-1"))).Err; err != nil {
		t.Fatal(err)
	}
	f.look(f.informed)
	f.mustReconcile()
	if got := last(); got == nil || got.Count != 1 || got.Preemptor.Name != "urgent" || got.Rule == "" || got.Time.IsZero() {
		t.Errorf("the first is kept as %+v", got)
	}
	if f.listed("g") != nil {
		t.Errorf("it is still listed: %v", f.listed("g"))
	}
}

// TestLastDisruptionOfMembers checks that the eviction of several single members is recorded as one
// preemption.
func TestLastDisruptionOfMembers(t *testing.T) {
	t.Parallel()
	objects := append(whole("g"), pod("urgent-0"))
	for _, obj := range objects {
		if p, ok := obj.(*corev1.Pod); ok && p.Name != "urgent-0" {
			p.Labels = map[string]string{v1alpha1.LabelPodGroup: "g"}
		}
	}
	f := newFinishing(t, objects...)
	o := order(victim("g-0"), victim("g-1"))
	for uid, p := range o.Victims {
		p.Labels = map[string]string{v1alpha1.LabelPodGroup: "g"}
		o.Victims[uid] = p
	}
	if err := f.evict(o).Err; err != nil {
		t.Fatal(err)
	}
	f.executor.Wait()
	if got := f.group("g").Status.LastDisruption; got == nil || got.Count != 1 || got.Preemptor.Name != "urgent" || len(got.Pods) != 2 {
		t.Errorf("kept is %+v, want 1 by urgent", got)
	}
	if f.group("g").Status.Phase == v1alpha1.PodGroupDisrupted {
		t.Error("the group goes whole")
	}
}

// TestWithdrawnIntentsAreNotFinished checks an intent whose withdrawal failed. It is withdrawn
// later, and no pod in it is evicted.
func TestWithdrawnIntentsAreNotFinished(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, append(append(whole("g"), whole("h")...), pod("urgent-0"))...)
	f.failing(errForbidden, "list h", "end g")
	if err := f.evict(order(victim("g", "g-0", "g-1"), victim("h", "h-0", "h-1"))).Err; err == nil {
		t.Fatal("It does not fail")
	}
	if got := f.listed("g"); len(got) != 2 {
		t.Fatalf("The list is %v, want one that could not be taken back", got)
	}
	if _, err := f.reconcile(); err == nil {
		t.Error("It is not tried again")
	}
	f.failing(nil)
	f.mustReconcile()
	f.mustReconcile()
	f.expectPods("g-0", "g-1", "h-0", "h-1", "urgent-0")
	if f.listed("g") != nil || f.target("g") != "False PreemptionWithdrawn" {
		t.Errorf("The list is %v and the condition %s", f.listed("g"), f.target("g"))
	}
}

// TestWithdrawalMeetsANewOrder checks that withdrawing the intent of an earlier order does not
// remove the pods that a newer order has listed.
func TestWithdrawalMeetsANewOrder(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, append(append(whole("g"), whole("h")...), pod("urgent-0"))...)
	f.failing(errForbidden, "list h", "end g")
	if err := f.evict(order(victim("g", "g-0", "g-1"), victim("h", "h-0", "h-1"))).Err; err == nil {
		t.Fatal("It does not fail")
	}
	key, met := types.NamespacedName{Namespace: "ns", Name: "g"}, false
	f.mu.Lock()
	f.fail = func(call string) error {
		if call != "end g" || met {
			return nil
		}
		met = true
		f.executor.ledger.at(key, func(e *entry) { e.withdrawn.Delete(uidOf("g-0"), uidOf("g-1")) })
		return apierrors.NewConflict(v1alpha1.Resource("podgroups"), "g", errors.New("the new order has written its list"))
	}
	f.mu.Unlock()
	f.mustReconcile()
	if got := f.listed("g"); !met || len(got) != 2 {
		t.Errorf("The list is %v, want that of the new order", got)
	}
}

// stale is a cache that returns an earlier version of a PodGroup.
type stale struct {
	client.Reader

	pg *v1alpha1.PodGroup
}

func (s stale) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*v1alpha1.PodGroup) = *s.pg.DeepCopy() //nolint:errcheck // There is nothing else to read.
	return nil
}

// TestWithdrawnIntentsThatACacheStillHas checks that the Finisher does not complete an intent that
// was withdrawn, although its cache still shows the intent. It completes a newer intent.
func TestWithdrawnIntentsThatACacheStillHas(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, append(whole("g"), pod("urgent-0"))...)
	f.failing(errForbidden, "delete")
	if err := f.evict(order(victim("g", "g-0", "g-1"))).Err; err == nil {
		t.Fatal("It does not fail")
	}
	if got := f.listed("g"); len(got) > 0 {
		t.Fatalf("The list is %v, want none", got)
	}
	f.failing(nil)
	upToDate := f.finisher.groups
	f.finisher.groups = stale{pg: disrupted("g-0", "g-1")}
	f.mustReconcile()
	f.mustReconcile()
	f.expectPods("g-0", "g-1", "urgent-0")
	f.finisher.groups = upToDate
	f.mustReconcile()
	if err := f.evict(order(victim("g", "g-0", "g-1"))).Err; err != nil {
		t.Fatal(err)
	}
	f.expectPods("urgent-0")
}

// TestConditionWithoutAList checks that the Finisher ends a DisruptionTarget condition without an
// intent.
func TestConditionWithoutAList(t *testing.T) {
	t.Parallel()
	pg := group("g")
	setTarget(pg, metav1.ConditionTrue, v1alpha1.ReasonPreemptionByScheduler, "")
	f := newFinishing(t, pg, pod("g-0"))
	f.mustReconcile()
	if got := f.target("g"); got != "False PreemptionByScheduler" {
		t.Errorf("The condition is %s", got)
	}
	f.expectPods("g-0")
	// A group that was deleted is not reconciled again.
	if err := f.groups.Delete(t.Context(), pg); err != nil {
		t.Fatal(err)
	}
	if result := f.mustReconcile(); !result.IsZero() || len(f.executor.ledger.entries) != 0 {
		t.Errorf("It is looked at again: %+v", result)
	}
}

// TestNothingIsKeptWithoutAFinisher checks that the ledger of an Executor without a Finisher has no
// entries after an order.
func TestNothingIsKeptWithoutAFinisher(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("urgent-0"))...)
	if err := b.evict(order(victim("g", "g-0", "g-1"))).Err; err != nil {
		t.Fatal(err)
	}
	if n := len(b.executor.ledger.entries); n != 0 {
		t.Errorf("%d groups are remembered", n)
	}
}

// TestPreemptedAgain checks the metric that counts groups that are preempted for different
// preemptors within an hour.
func TestPreemptedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before *v1alpha1.LastDisruption
		want   float64
	}{
		"for the first time":      {},
		"half an hour after":      {before: &v1alpha1.LastDisruption{Preemptor: v1alpha1.DisruptionPreemptor{UID: "other"}, Count: 1, Time: metav1.Unix(1000-1800, 0)}, want: 1},
		"two hours after":         {before: &v1alpha1.LastDisruption{Preemptor: v1alpha1.DisruptionPreemptor{UID: "other"}, Count: 1, Time: metav1.Unix(1000-7200, 0)}},
		"for the same preemptor":  {before: &v1alpha1.LastDisruption{Preemptor: v1alpha1.DisruptionPreemptor{UID: "uid-urgent"}, Count: 1, Time: metav1.Unix(990, 0)}},
		"a moment after, for one": {before: &v1alpha1.LastDisruption{Preemptor: v1alpha1.DisruptionPreemptor{UID: "other"}, Count: 3, Time: metav1.Unix(990, 0)}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append(whole("g"), pod("urgent-0"))
			for _, obj := range objects {
				if pg, ok := obj.(*v1alpha1.PodGroup); ok {
					pg.Status.LastDisruption = c.before
				}
			}
			f := newFinishing(t, objects...)
			if err := f.evict(order(victim("g", "g-0", "g-1"))).Err; err != nil {
				t.Fatal(err)
			}
			f.look(f.informed)
			f.mustReconcile()
			families, err := f.registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := -1.0
			for _, family := range families {
				if family.GetName() == "reprieve_groups_preempted_again_total" {
					got = family.GetMetric()[0].GetCounter().GetValue()
				}
			}
			if got != c.want {
				t.Errorf("counted %v, want %v", got, c.want)
			}
		})
	}
}
