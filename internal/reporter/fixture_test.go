package reporter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/leaving"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// fixture is a Reporter with pods, groups and a clock. Tests check its reports second by second.
type fixture struct {
	t        *testing.T
	reporter *Reporter
	engine   *engine.Engine
	groups   groups
	pods     cache.Indexer
	nodes    cache.Indexer
	clock    *clocktesting.FakeClock
	started  time.Time
	// deaf is true if written conditions do not appear in the informer.
	deaf bool

	said []saying
	// calls maps the name of each pod to the number of conditions that were written for it.
	calls map[string]int
}

// saying is a condition that was written for a pod, and the time since the start of the test.
type saying struct {
	pod  string
	at   time.Duration
	what corev1.PodCondition
}

var _ Statuses = (*fixture)(nil)

// groups is a gang.Source.
type groups map[types.NamespacedName]*gang.Group

// Group is part of gang.Source.
func (gs groups) Group(key types.NamespacedName) (*gang.Group, bool) {
	g, ok := gs[key]
	return g, ok
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		t: t, groups: groups{}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)),
		pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			gang.IndexName: func(obj any) ([]string, error) {
				if p, ok := obj.(*corev1.Pod); ok {
					if key, ok := gang.GroupOf(p); ok {
						return []string{key.String()}, nil
					}
				}
				return nil, nil
			},
		}),
		nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		calls: map[string]int{},
	}
	f.started = f.clock.Now()
	f.engine = engine.New(nil)
	index := cluster.NewIndex(cluster.Sources{Groups: f.groups})
	index.Lister, index.Pods, index.Nodes = gang.NewLister(f.pods), corelisters.NewPodLister(f.pods), corelisters.NewNodeLister(f.nodes)
	args := &configv1alpha1.ReprieveArgs{WorkloadAware: ptr.To(true), QueueLabelKey: ptr.To(v1alpha1.LabelQueue)}
	index.Profiles.Add("reprieve-scheduler", args, nil)
	placements := cluster.NewPlacements(index, f.engine, &leaving.Pods{}, f.clock)
	ledger := cluster.NewLedger(placements, f.engine, queue.NewLedger(), nil)
	f.reporter = New(index, placements, ledger, f.engine, f, metrics.New(), f.clock)
	f.add(f.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}})
	return f
}

func (f *fixture) add(to cache.Indexer, obj any) {
	f.t.Helper()
	if err := to.Add(obj); err != nil {
		f.t.Fatal(err)
	}
}

// gang creates a gang with count members. The first member is the leader.
func (f *fixture) gang(name string, count int) []*corev1.Pod {
	f.t.Helper()
	f.groups[key(name)] = &gang.Group{Key: key(name), UID: types.UID("uid-" + name), MinCount: count, Priority: ptr.To(int32(1))}
	all := members(name, count)
	for _, pod := range all {
		f.update(pod)
	}
	f.engine.Gangs.Admit(gang.KeyOf(key(name)), string(all[0].UID), func(engine.UID) bool { return true })
	return all
}

// update adds a version of a pod to the informer, and reports it to the engine as the scheduler
// does.
func (f *fixture) update(pod *corev1.Pod) {
	f.t.Helper()
	f.add(f.pods, pod)
	uid, single := string(pod.UID), gang.KeyOfPod(pod)
	group, _ := gang.GroupOf(pod)
	f.engine.Step(f.clock.Now(), engine.PodArrives{Pod: uid, Key: single, Group: gang.KeyOf(group)})
	if pod.Spec.NodeName != "" {
		f.engine.Step(f.clock.Now(), engine.PodBinds{Pod: uid, Key: single, Node: pod.Spec.NodeName})
		return
	}
	if pod.Spec.SchedulerName == "reprieve-scheduler" {
		f.engine.Gangs.CheckReport(gang.KeyOf(group), f.clock.Now())
	}
}

// remove deletes a pod from the informer, and calls the handler.
func (f *fixture) remove(pod *corev1.Pod) {
	f.t.Helper()
	if err := f.pods.Delete(pod); err != nil {
		f.t.Fatal(err)
	}
	f.engine.Gangs.CheckReported(gang.KeyOf(key(pod.Labels[v1alpha1.LabelPodGroup])), f.clock.Now())
}

// now returns the current version of a pod from the informer.
func (f *fixture) now(name string) *corev1.Pod {
	f.t.Helper()
	p, err := f.reporter.index.Pods.Pods("ns").Get(name)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// framework sets the condition that the framework writes for a pod that found no room in its cycle.
func (f *fixture) framework(name, message string) {
	f.t.Helper()
	f.show(f.now(name), corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	})
}

func (f *fixture) show(pod *corev1.Pod, c corev1.PodCondition) {
	f.t.Helper()
	pod = pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{c}
	f.update(pod)
}

// Bound is part of Statuses.
func (*fixture) Bound(types.UID) {}

// Say is part of Statuses.
func (f *fixture) Say(pod *corev1.Pod, c corev1.PodCondition) {
	f.said = append(f.said, saying{pod: pod.Name, at: f.clock.Now().Sub(f.started), what: c})
	f.calls[pod.Name]++
	if !f.deaf {
		f.show(f.now(pod.Name), c)
	}
}

// decided records a decision without room for a gang.
func (f *fixture) decided(name, message string) {
	f.reporter.NoRoom(gang.KeyOf(key(name)), gang.Verdict{Reason: v1alpha1.ReasonUnschedulable, Message: message})
}

// pass advances the clock by a number of seconds, with one tick of the reporter in each second.
func (f *fixture) pass(seconds int) {
	for range seconds {
		f.clock.Step(time.Second)
		f.reporter.ReportMembers(f.clock.Now())
	}
}

// expect compares the conditions that were written since the last call, in order.
func (f *fixture) expect(want ...string) {
	f.t.Helper()
	var got []string
	for _, s := range f.said {
		got = append(got, fmt.Sprintf("%s %s: %s", s.pod, s.what.Reason, s.what.Message))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		f.t.Errorf("Said is\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	f.said = nil
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

// pod returns a pending member of a group.
func pod(name, group string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1alpha1.LabelPodGroup: group},
		},
		Spec: corev1.PodSpec{SchedulerName: "reprieve-scheduler", Priority: ptr.To(priority)},
	}
}

func members(group string, count int) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		out[i] = pod(fmt.Sprintf("%s-%d", group, i), group, 1)
	}
	return out
}

// holdsBack is a Derived that blocks the pod with a name.
type holdsBack struct {
	cluster.Underived
	name string
}

// Hold is part of Derived.
func (h holdsBack) Hold(pod *corev1.Pod) gang.Verdict {
	if pod.Name != h.name {
		return gang.Verdict{}
	}
	return gang.Verdict{Reason: "OwnerUnknown", Message: "it has not been read"}
}
