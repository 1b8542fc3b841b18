package eviction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// bench is an Executor on clients that fail when a test says so. That a real API server keeps the UID
// precondition is shown in test/integration/eviction.
type bench struct {
	executor *Executor
	pods     *fake.Clientset
	groups   client.Client
	events   *events.FakeRecorder
	// calls are the writes, in their order.
	mu    sync.Mutex
	calls []string
	// failGroups fails every write to PodGroups.
	failGroups error
}

func (b *bench) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, fmt.Sprintf(format, args...))
}

func newBench(t *testing.T, groups []client.Object, pods ...runtime.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{pods: fake.NewClientset(pods...), events: events.NewFakeRecorder(100)}
	b.groups = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(groups...).WithStatusSubresource(&v1alpha1.PodGroup{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			b.note("mark group %s", obj.GetName())
			if b.failGroups != nil {
				return b.failGroups
			}
			return c.SubResource(sub).Update(ctx, obj, opts...)
		}}).Build()
	b.pods.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch a := action.(type) {
		case clienttesting.PatchAction:
			b.note("mark pod %s", a.GetName())
		case clienttesting.DeleteAction:
			b.note("delete pod %s", a.GetName())
		}
		return false, nil, nil
	})
	b.executor = New(t.Context(), b.pods, b.groups, b.events, clock.RealClock{})
	return b
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
}

func group(name, uid string) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
}

// order takes one whole group of two pods, and a single pod.
func order(turnBack func(*corev1.Pod) bool) scheduler.EvictionOrder {
	victim := func(name string, whole bool, pods ...string) core.Victim {
		v := core.Victim{Namespace: "ns", Name: name, UID: "uid-" + name, Group: whole, Priority: 3, Rule: core.RuleLowerPriority}
		for _, p := range pods {
			v.Pods = append(v.Pods, core.VictimPod{Namespace: "ns", Name: p, UID: "uid-" + p, Node: "n"})
		}
		return v
	}
	o := scheduler.EvictionOrder{
		Decision: core.Decision{
			Outcome:   core.Preempts,
			Preemptor: core.Preemptor{Namespace: "ns", Name: "urgent", UID: "uid-urgent", Gang: true, Priority: 9},
			Victims:   []core.Victim{victim("g", true, "g-0", "g-1"), victim("single", false, "single")},
			Message:   "it fits once they are gone",
		},
		Victims:  map[types.UID]*corev1.Pod{},
		TurnBack: turnBack,
	}
	for _, name := range []string{"g-0", "g-1", "single"} {
		o.Victims[types.UID("uid-"+name)] = pod(name)
	}
	return o
}

func never(*corev1.Pod) bool { return false }

// evict carries an order out and returns what done was told. It fails the test when done is called twice.
func (b *bench) evict(t *testing.T, o scheduler.EvictionOrder) error {
	t.Helper()
	told := make(chan error, 2)
	b.executor.Evict(t.Context(), o, func(err error) { told <- err })
	b.executor.Wait()
	if n := len(told); n != 1 {
		t.Fatalf("Told %d times", n)
	}
	return <-told
}

func (b *bench) recorded() []string {
	var out []string
	for {
		select {
		case e := <-b.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func TestEvictionMarksGroupsBeforeItTouchesPods(t *testing.T) {
	t.Parallel()
	b := newBench(t, []client.Object{group("g", "uid-g")}, pod("g-0"), pod("g-1"), pod("single"))
	if err := b.evict(t, order(never)); err != nil {
		t.Fatal(err)
	}
	if len(b.calls) != 7 || b.calls[0] != "mark group g" {
		t.Fatalf("Calls are %q", b.calls)
	}
	for _, name := range []string{"g-0", "g-1", "single"} {
		mark, del := slices.Index(b.calls, "mark pod "+name), slices.Index(b.calls, "delete pod "+name)
		if mark < 0 || del < mark {
			t.Errorf("%s is marked as call %d and deleted as call %d", name, mark, del)
		}
	}
	var pg v1alpha1.PodGroup
	if err := b.groups.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "g"}, &pg); err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionDisruptionTarget)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "PodGroup ns/urgent (priority 9)") {
		t.Errorf("The group's condition is %v", c)
	}
	for _, action := range b.pods.Actions() {
		if d, ok := action.(clienttesting.DeleteActionImpl); ok {
			p := d.DeleteOptions.Preconditions
			if p == nil || p.UID == nil || string(*p.UID) != "uid-"+d.Name || d.DeleteOptions.GracePeriodSeconds != nil {
				t.Errorf("%s is deleted with %+v", d.Name, d.DeleteOptions)
			}
		}
	}
	// One for each pod, one for the group, one for the preemptor.
	if got := b.recorded(); len(got) != 5 {
		t.Errorf("Events are %q", got)
	}
}

func TestEvictionOfWhatHasGoneAlready(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(corev1.Resource("pods"), "g-0", errors.New("the UID in the precondition"))
	cases := map[string]func(*bench){
		"pods that do not exist": func(*bench) {},
		"pods of the same name, at the mark": func(b *bench) {
			b.pods.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
		},
		"pods of the same name, at the deletion": func(b *bench) {
			b.pods.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, pod("x"), nil })
			b.pods.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			prepare(b)
			if err := b.evict(t, order(never)); err != nil {
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

func TestEvictionLeavesAGroupOfTheSameNameAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, []client.Object{group("g", "another")}, pod("g-0"), pod("g-1"), pod("single"))
	if err := b.evict(t, order(never)); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(b.calls, "mark group g") {
		t.Error("A group of the same name is marked")
	}
}

func TestEvictionThatFails(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "g-0", errors.New("no"))
	t.Run("at the group, touches no pod", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, []client.Object{group("g", "uid-g")}, pod("g-0"), pod("g-1"), pod("single"))
		b.failGroups = forbidden
		err := b.evict(t, order(never))
		if err == nil || !strings.Contains(err.Error(), "mark PodGroup ns/g") {
			t.Errorf("Failed with %v", err)
		}
		if len(b.calls) != 1 {
			t.Errorf("Calls are %q", b.calls)
		}
	})
	t.Run("at a pod, says which", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil, pod("g-0"), pod("g-1"), pod("single"))
		b.pods.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			d, ok := a.(clienttesting.DeleteAction)
			return ok && d.GetName() == "g-0", nil, forbidden
		})
		if err := b.evict(t, order(never)); err == nil || !strings.Contains(err.Error(), "evict pod ns/g-0") || !errors.Is(err, forbidden) {
			t.Errorf("Failed with %v", err)
		}
		for _, e := range b.recorded() {
			if strings.Contains(e, "Preempting") && !strings.Contains(e, "Preempted") {
				t.Errorf("The preemptor hears of success: %s", e)
			}
		}
	})
}

func TestEvictionOfVictimsThatAreNotBound(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, pod("g-0"), pod("g-1"), pod("single"))
	if err := b.evict(t, order(func(p *corev1.Pod) bool { return p.Name == "single" })); err != nil {
		t.Fatal(err)
	}
	for _, call := range b.calls {
		if strings.HasSuffix(call, " single") {
			t.Errorf("A victim that was turned back meets %q", call)
		}
	}
}

func TestEvictionEndsWithItsExecutor(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, pod("g-0"), pod("g-1"), pod("single"))
	ctx, cancel := context.WithCancel(t.Context())
	b.executor = New(ctx, b.pods, b.groups, b.events, clock.RealClock{})
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.executor.Evict(t.Context(), order(func(*corev1.Pod) bool {
		once.Do(func() { close(started) })
		<-release
		return true
	}), func(error) {})
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
