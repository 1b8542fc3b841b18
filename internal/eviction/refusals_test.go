package eviction

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// webhookError is the error of a webhook with an internal error, and errStore is an error of etcd.
// Neither has a reason.
var (
	webhookError = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: `admission webhook "a" denied the request: oops`}}
	errStore     = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "etcdserver: request timed out"}}
)

// errTooLarge is the error of etcd for an object of more than 1.5 MB.
var errTooLarge = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "etcdserver: request is too large"}}

// errUnasked is the API server's error if a webhook cannot be reached.
var errUnasked = apierrors.NewInternalError(errors.New("failed calling webhook"))

// TestRefusals checks that a pod is protected for growing times while its deletion is refused.
// Deletions in its namespace are tested by dry run for an hour.
func TestRefusals(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r := NewRefusals(clk)
	var told []string
	r.Follow(func(node string) { told = append(told, fmt.Sprint(node, " ", r.Until("a").Sub(clk.Now()))) }, func() { told = append(told, "lifted") })
	begin := clk.Now()
	for range 9 {
		protected := r.Note("ns", "n", "a")
		if want := clk.Since(begin) >= patience; protected != want || protected == r.Until("a").IsZero() {
			t.Errorf("After %v, it is left alone until %v: %t, want %t", clk.Since(begin), r.Until("a"), protected, want)
		}
		clk.Step(time.Minute)
	}
	want := []string{"n 10s", "n 20s", "n 40s", "n 1m20s", "n 2m40s", "n 5m20s", "n 10m0s", "n 10m0s"}
	if !slices.Equal(told, want) {
		t.Errorf("Told %q, want %q", told, want)
	}
	if got := r.lasting("a"); got != 9*time.Minute {
		t.Errorf("It is refused for %v", got)
	}
	if !r.Note("ns", "n", "b") || r.Note("elsewhere", "n", "c") {
		t.Error("Another one of the namespace is not left alone at once, or one of another is")
	}
	told = nil
	if !r.mayRefuse("ns", "other") || r.mayRefuse("somewhere", "other") || r.lasting("other") != 0 || !r.Until("other").IsZero() {
		t.Error("Another pod counts as refused, or its namespace as free of refusals, or another one not")
	}
	clk.Step(unbroken)
	if got := r.lasting("a"); got != 0 {
		t.Errorf("It is refused for %v, though nobody has asked for a while", got)
	}
	r.Note("ns", "n", "a")
	if got := r.Until("a").Sub(clk.Now()); r.lasting("a") != 0 || got != longestRefusal {
		t.Errorf("After a while, it is left alone for %v, and refused for %v", got, r.lasting("a"))
	}
	clk.Step(longestRefusal + dryRunTime + 1)
	if r.Note("ns", "n", "a") || !r.Until("a").IsZero() {
		t.Error("A refusal that was long ago counts with the next one")
	}
	clk.Step(dryRunTime + 1)
	if !r.mayRefuse("ns", "a") || r.mayRefuse("ns", "other") {
		t.Error("An hour later, the pod may not be refused, or its namespace may")
	}
	if r.Forget("a"); r.mayRefuse("ns", "a") {
		t.Error("It may be refused although it has gone")
	}
}

// TestRefusalsAreLifted checks that the pods of a namespace lose their protection when a refused
// pod of the namespace is deleted. Deleting a pod that was not refused changes nothing.
func TestRefusalsAreLifted(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r := NewRefusals(clk)
	for range 2 {
		for _, uid := range []types.UID{"a", "b", "elsewhere"} {
			r.Note(map[types.UID]string{"elsewhere": "other"}[uid], "node-"+string(uid), uid)
		}
		clk.Step(patience)
	}
	var told []string
	r.Follow(func(node string) { told = append(told, node) }, func() { told = append(told, "lifted") })
	if r.deleted("never-refused"); len(told) > 0 || r.Until("b").IsZero() {
		t.Errorf("told %q", told)
	}
	r.deleted("a")
	if want := []string{"node-b", "lifted"}; !slices.Equal(told, want) || !r.Until("b").IsZero() || r.Until("elsewhere").IsZero() {
		t.Errorf("told %q, want %q", told, want)
	}
	if r.Note("", "node-b", "b") {
		t.Error("The next refusal is one of a row")
	}
}

// TestWhatIsAVeto checks which errors are vetoes: the call has changed nothing, and the next try
// would fail in the same way.
func TestWhatIsAVeto(t *testing.T) {
	t.Parallel()
	pods := corev1.Resource("pods")
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"none":                                  {nil, false},
		"forbidden":                             {errForbidden, true},
		"invalid, as a policy has it":           {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "a", nil), true},
		"a webhook does not answer":             {fmt.Errorf("delete: %w", errUnasked), true},
		"a webhook has an error":                {webhookError, true},
		"the store has an error":                {errStore, false},
		"too many requests":                     {apierrors.NewTooManyRequests("later", 1), false},
		"a conflict":                            {apierrors.NewConflict(pods, "a", errors.New("changed")), false},
		"it has gone":                           {apierrors.NewNotFound(pods, "a"), false},
		"a webhook finds nothing":               {deniedWith(http.StatusNotFound), true},
		"a webhook says later":                  {deniedWith(http.StatusTooManyRequests), true},
		"a webhook says that it is in conflict": {deniedWith(http.StatusConflict), true},
		"a policy says who asks may not": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized,
			Message: `pods "a" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: it stays`,
		}}, true},
		"not known who asks":           {apierrors.NewUnauthorized("no"), false},
		"a timeout":                    {apierrors.NewTimeoutError("late", 1), false},
		"too large for the API server": {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		"too large for the store":      {errTooLarge, true},
		"lost on the way":              {errLost, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isVeto(tt.err); got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// deniedWith returns the API server's error if a webhook denies a call with the code.
func deniedWith(code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Message: `admission webhook "keep.example.com" denied the request: it stays`,
	}}
}

// TestWebhookThatFindsNothing checks that a pod does not count as gone if a webhook denies the call
// with code 404.
func TestWebhookThatFindsNothing(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"mark g-0", "delete g-0"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			f := newFinishing(t, disrupted("g-0"), pod("g-0"))
			f.fail = func(made string) error {
				if made == call {
					return deniedWith(http.StatusNotFound)
				}
				return nil
			}
			if _, err := f.reconcile(); err == nil {
				t.Error("it counts as done")
			}
			f.expectPods("g-0")
			if !f.executor.remover.refusals.mayRefuse("ns", uidOf("g-0")) {
				t.Error("that it is refused is not remembered")
			}
		})
	}
}

// TestUnansweredWebhookTouchesNothing checks deletions that fail because a webhook cannot be
// reached. The Executor reads the pods from the API server. If no pod terminates, the group stays.
func TestUnansweredWebhookTouchesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err      error
		calls    []string
		pods     []string
		listed   []string
		wantBegn int
	}{
		"no pod can be deleted":         {err: errUnasked, calls: []string{"delete"}, pods: []string{"g-0", "g-1"}},
		"one has come through":          {err: errAfter{errUnasked}, calls: []string{"delete g-0"}, pods: nil, listed: []string{"g-0", "g-1"}},
		"the store has an error":        {err: errStore, calls: []string{"delete"}, pods: []string{"g-0", "g-1"}, listed: []string{"g-0", "g-1"}, wantBegn: 2},
		"what it came to is not known":  {err: errLost, calls: []string{"delete"}, pods: []string{"g-0", "g-1"}, listed: []string{"g-0", "g-1"}, wantBegn: 2},
		"an answer without a pod there": {err: errAfter{errUnasked}, calls: []string{"delete"}, pods: nil, listed: []string{"g-0", "g-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(whole("g"), pod("urgent-0"))...)
			b.failing(tt.err, tt.calls...)
			outcome := b.evict(order(victim("g", "g-0", "g-1")))
			b.expectPods(append(tt.pods, "urgent-0")...)
			if got := b.listed("g"); !slices.Equal(got, tt.listed) {
				t.Errorf("The list is %v, want %v", got, tt.listed)
			}
			if (outcome.Err == nil) != (tt.pods == nil) || outcome.Begun.Len() != tt.wantBegn {
				t.Errorf("The outcome is %v, %v has begun", outcome.Err, outcome.Begun)
			}
		})
	}
}

// TestDryRunComesFirst checks an order for a pod whose deletion was refused before. The order
// tests the deletion by dry run before it changes anything. An order for another pod of the
// namespace does so too.
func TestDryRunComesFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("a"), pod("b"), pod("urgent-0"))...)
	b.failing(errForbidden, "delete b")
	if got := b.evict(order(victim("b"))); !apierrors.IsForbidden(got.Err) || got.Refused {
		t.Fatalf("It ends as %+v", got)
	}
	b.clock.Step(patience)
	before := len(b.made(""))
	outcome := b.evict(order(victim("a"), victim("b"), victim("g", "g-0", "g-1")))
	if !apierrors.IsForbidden(outcome.Err) || !outcome.Refused || outcome.Begun.Len() > 0 {
		t.Errorf("It ends as %+v", outcome)
	}
	for _, call := range b.made("")[before:] {
		if !strings.HasPrefix(call, "ask ") {
			t.Errorf("%q is called", call)
		}
	}
	b.expectPods("a", "b", "g-0", "g-1", "urgent-0")
	if until := b.executor.remover.refusals.Until(uidOf("b")); until.Sub(b.clock.Now()) != firstRefusal {
		t.Errorf("It is left alone until %v", until)
	}
	b.failing(nil)
	if err := b.evict(order(victim("a"), victim("b"), victim("g", "g-0", "g-1"))).Err; err != nil {
		t.Error(err)
	}
	b.expectPods("urgent-0")
	if n := len(b.executor.remover.refusals.pods); n != 0 {
		t.Errorf("%d refusals are remembered", n)
	}
}

// TestDryRunOfAllPods checks that one order tests all its pods, and records each refusal.
func TestDryRunOfAllPods(t *testing.T) {
	t.Parallel()
	b := newBench(t, pod("urgent-0"))
	b.executor.remover.refusals.Note("ns", "n", "first")
	b.failing(errForbidden, "delete")
	var all []core.Victim
	for i := range 4 * maxParallel {
		all = append(all, victim(fmt.Sprint("v-", i)))
	}
	if got := b.evict(order(all...)); !apierrors.IsForbidden(got.Err) || got.Begun.Len() > 0 {
		t.Errorf("It ends as %+v", got)
	}
	if n := len(b.executor.remover.refusals.pods); n != len(all)+1 {
		t.Errorf("%d are known to be refused", n)
	}
}

// TestGroupThatMayNotBeListed checks a group whose intent cannot be written. It is protected like a
// group whose pods cannot be deleted, so that the preemptor gets other victims.
func TestGroupThatMayNotBeListed(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("urgent-0"))...)
	b.failing(errForbidden, "list g")
	for begin := b.clock.Now(); ; b.clock.Step(firstRefusal) {
		got := b.evict(order(victim("g", "g-0", "g-1")))
		if !apierrors.IsForbidden(got.Err) || got.Begun.Len() > 0 {
			t.Fatalf("It ends as %+v", got)
		}
		if want := b.clock.Since(begin) >= patience; got.Refused != want {
			t.Fatalf("After %v, it is refused: %t, want %t", b.clock.Since(begin), got.Refused, want)
		}
		if got.Refused {
			break
		}
	}
	for _, name := range []string{"g-0", "g-1"} {
		if b.executor.remover.refusals.Until(uidOf(name)).IsZero() {
			t.Errorf("%s is a victim like others", name)
		}
	}
	b.expectPods("g-0", "g-1", "urgent-0")
}

// TestGroupThatCannotBeMarked checks a group whose intent cannot be written because of the group
// itself. The group is protected at once, and longer after each try. Other pods of the namespace
// are evicted without a dry run, and their eviction does not end the protection.
func TestGroupThatCannotBeMarked(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(corev1.Resource("podgroups"), "g", errors.New("changed"))
	for name, err := range map[string]error{
		"too large":                errTooLarge,
		"invalid":                  apierrors.NewInvalid(schema.GroupKind{Kind: "PodGroup"}, "g", nil),
		"changed by others always": conflict,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(append(whole("g"), whole("h")...), pod("single"), pod("urgent-0"))...)
			b.failing(err, "list g", "over g")
			for _, want := range []time.Duration{firstRefusal, 2 * firstRefusal} {
				if got := b.evict(order(victim("g", "g-0", "g-1"), victim("h", "h-0", "h-1"))); !got.Refused || got.Begun.Len() > 0 {
					t.Fatalf("It ends as %+v", got)
				}
				for _, name := range []string{"g-0", "g-1"} {
					if got := b.executor.remover.refusals.Until(uidOf(name)).Sub(b.clock.Now()); got != want {
						t.Errorf("%s is protected for %v, want %v", name, got, want)
					}
				}
			}
			if err := b.evict(order(victim("single"), victim("h", "h-0", "h-1"))).Err; err != nil {
				t.Error(err)
			}
			b.expectPods("g-0", "g-1", "urgent-0")
			if asked := b.made("ask"); len(asked) > 0 {
				t.Errorf("Calls are %q", asked)
			}
			if b.executor.remover.refusals.Until(uidOf("g-0")).IsZero() {
				t.Error("The protection has ended, and the group is as before")
			}
			b.failing(nil)
			if err := b.evict(order(victim("g", "g-0", "g-1"))).Err; err != nil {
				t.Error(err)
			}
			if n := len(b.executor.remover.refusals.pods); n != 0 {
				t.Errorf("%d refusals are remembered", n)
			}
		})
	}
}

// TestGroupThatIsChangedOften checks that the intent is written although other clients change the
// group many times at once.
func TestGroupThatIsChangedOften(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("urgent-0"))...)
	conflicts := 0
	b.fail = func(call string) error {
		if call == "list g" && conflicts < 8 {
			conflicts++
			return apierrors.NewConflict(corev1.Resource("podgroups"), "g", errors.New("changed"))
		}
		return nil
	}
	if err := b.evict(order(victim("g", "g-0", "g-1"))).Err; err != nil {
		t.Error(err)
	}
	b.expectPods("urgent-0")
}

// TestPodThatIsTooLarge checks that a pod is protected at once if it is too large for a further
// condition, or cannot be deleted because of its size.
func TestPodThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"mark large", "delete large"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, pod("large"), pod("urgent-0"))
			b.failing(errTooLarge, call)
			if got := b.evict(order(victim("large"))); !got.Refused || got.Begun.Len() > 0 {
				t.Errorf("It ends as %+v", got)
			}
			if got := b.executor.remover.refusals.Until(uidOf("large")).Sub(b.clock.Now()); got != firstRefusal {
				t.Errorf("It is protected for %v", got)
			}
		})
	}
}

// TestWhatIsUnboundIsNotAskedAbout checks that pods that are not bound are not tested by dry run,
// because they are not deleted.
func TestWhatIsUnboundIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	b := newBench(t, append(whole("g"), pod("urgent-0"))...)
	b.executor.remover.refusals.Note("ns", "n", uidOf("g-0"))
	b.failing(errForbidden, "delete g-0")
	b.scheduler.isUnbound = func(victim string) bool { return victim == "g-0" }
	b.scheduler.turnBack = func(victim *corev1.Pod) bool { return victim.Name == "g-0" }
	if err := b.evict(order(victim("g", "g-0", "g-1"))).Err; err != nil {
		t.Error(err)
	}
	b.expectPods("g-0", "urgent-0")
}

// TestRefusedMemberAfterAPodHasGone checks a group with a refused pod whose other pods are gone.
// The Finisher continues, even if this process has never seen the other pods.
func TestRefusedMemberAfterAPodHasGone(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, disrupted("gone", "g-0", "g-1"), pod("g-0"), pod("g-1"))
	f.failing(errForbidden, "delete g-0")
	if _, err := f.reconcile(); err == nil {
		t.Error("It does not fail")
	}
	f.expectPods("g-0")
}

// TestIntactGroupIsLetGo checks that the Finisher withdraws the intent of another process if
// deletions are refused and no pod of the group is gone. Before that, it waits until every earlier
// delete call must have ended.
func TestIntactGroupIsLetGo(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"refused": errForbidden, "a webhook does not answer": errUnasked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFinishing(t, disrupted("g-0", "g-1"), pod("g-0"), pod("g-1"))
			f.failing(err, "delete g-1")
			if _, err := f.reconcile(); err == nil {
				t.Fatal("It does not fail")
			}
			if got := f.listed("g"); len(got) != 2 {
				t.Fatalf("The list is %v, at once", got)
			}
			f.clock.Step(memory)
			f.mustReconcile()
			f.expectPods("g-0", "g-1")
			if f.listed("g") != nil || f.target("g") != "False PreemptionWithdrawn" {
				t.Errorf("The list is %v and the condition %s", f.listed("g"), f.target("g"))
			}
			if got := f.made("delete"); len(got) != 0 {
				t.Errorf("It calls %q", got)
			}
		})
	}
}

// TestGroupThatMayBeTouchedIsNotLetGo checks that the intent stays if any pod terminates or is
// gone, even if the informer does not show this yet.
func TestGroupThatMayBeTouchedIsNotLetGo(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *finishing){
		"one is terminating": func(f *finishing) {
			p := terminating(pod("g-0"))
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
			if err := f.pods.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), p, "ns"); err != nil {
				t.Fatal(err)
			}
		},
		"one has gone": func(f *finishing) {
			if err := f.pods.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "g-0"); err != nil {
				t.Fatal(err)
			}
		},
		"a delete got lost": func(f *finishing) {
			f.clock.Step(memory - 1)
			f.executor.ledger.note(types.NamespacedName{Namespace: "ns", Name: "g"}, uidOf("g-0"), uncertain)
			f.clock.Step(-memory + 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFinishing(t, disrupted("g-0", "g-1"), pod("g-0"), pod("g-1"))
			f.failing(errForbidden, "delete")
			change(f)
			f.clock.Step(memory)
			if _, err := f.reconcile(); err == nil {
				t.Error("It does not fail")
			}
			if got := f.listed("g"); len(got) != 2 {
				t.Errorf("The list is %v", got)
			}
		})
	}
}

// TestRefusedMemberStays checks a member that cannot be deleted. The other members are evicted.
// After the timeout, the member is removed from the intent and stays.
func TestRefusedMemberStays(t *testing.T) {
	t.Parallel()
	names := []string{"g-0"}
	objects := []client.Object{pod("g-0"), terminating(pod("leaving"))}
	for i := range 4 * maxParallel {
		name := fmt.Sprintf("other-%d", i)
		names, objects = append(names, name), append(objects, pod(name))
	}
	names = append(names, "leaving")
	f := newFinishing(t, append(objects, disrupted(names...))...)
	f.failing(errForbidden, "delete g-0")
	start := f.clock.Now()
	_, _ = f.reconcile()
	f.expectPods("g-0", "leaving")
	for len(f.listed("g")) == len(names) && f.clock.Since(start) < time.Hour {
		_, _ = f.reconcile()
		f.look(f.informed)
		f.clock.Step(10 * time.Second)
	}
	f.expectPods("g-0", "leaving")
	if got, want := f.listed("g"), names[1:]; !slices.Equal(got, want) || f.target("g") != "True PreemptionByScheduler" {
		t.Errorf("The list is %v, want %v, and the condition %s", got, want, f.target("g"))
	}
	if took := f.clock.Since(start); took < 5*time.Minute || took > 6*time.Minute {
		t.Errorf("It is let go after %v", took)
	}
	told := strings.Join(f.recorded(), "\n")
	if !strings.Contains(told, "Warning DeletionRefused it stays, though its PodGroup was to go as a whole: evict pod ns/g-0 of a group that has begun to go: delete: ") {
		t.Errorf("Events are %q", told)
	}
	if err := f.pods.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", "leaving"); err != nil {
		t.Fatal(err)
	}
	f.look(f.informed)
	f.mustReconcile()
	if after := f.group("g").Status; after.Disruption != nil || after.LastDisruption == nil {
		t.Errorf("In the end, the status is %+v", after)
	}
	f.expectPods("g-0")
}
