package snapshot

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// facts implements all Sources. A test sets its fields. Pods belong to the group that they name.
type facts struct {
	groups    map[types.NamespacedName]*gang.Group
	placed    []*corev1.Pod
	disrupted map[types.UID]bool
	overdue   map[types.UID]bool
	// late has the pods whose departure is LeavesLate.
	late map[types.UID]bool
	// refused maps names of pods to the times until which a refused deletion protects them.
	refused map[string]time.Time
	// derived maps pods that name no group to their group.
	derived map[types.UID]types.NamespacedName
	// delegated are the resources that a DeviceClass maps.
	delegated map[corev1.ResourceName]bool
	// minRuntime is the min-runtime of the profile of all groups.
	minRuntime *core.MinRuntime
	// degraded has the results of Degraded by group.
	degraded map[types.NamespacedName]Degraded
	// sealed is the summary of the members' terms, for each group.
	sealed engine.Sealed
	// classes has the PriorityClasses.
	classes cache.Indexer
	// reads is the number of pods that the cache has read. asked is the number of pods that it has
	// asked Membership for.
	reads, asked int
}

func newFacts() *facts {
	return &facts{
		groups: map[types.NamespacedName]*gang.Group{}, disrupted: map[types.UID]bool{}, overdue: map[types.UID]bool{}, late: map[types.UID]bool{},
		delegated: map[corev1.ResourceName]bool{}, derived: map[types.UID]types.NamespacedName{},
		classes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
	}
}

func (f *facts) sources() Sources {
	return Sources{Membership: f, Groups: f, Disruptions: f, Tolerations: f, Queues: f, Profiles: f, Delegation: f}
}

func (f *facts) WorkloadOf(key types.NamespacedName) (*gang.Group, bool) { return f.Group(key) }

func (f *facts) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	f.asked++
	if key, ok := f.derived[pod.UID]; ok {
		return key, true
	}
	return gang.GroupOf(pod)
}

func (f *facts) PodGroupOf(pod *corev1.Pod) (types.NamespacedName, bool) { return gang.GroupOf(pod) }

// NeverGroup is part of Groups. The tests that use facts have no other flaws.
func (f *facts) NeverGroup(key types.NamespacedName) (*gang.Group, bool) {
	g, ok := f.groups[key]
	return g, ok && g.Never
}

func (f *facts) Group(key types.NamespacedName) (*gang.Group, bool) {
	g, ok := f.groups[key]
	return g, ok
}

func (f *facts) RunOf(g *gang.Group) engine.Run {
	return engine.Run{Start: g.StartTime, Clock: g.StartTime, Sealed: f.sealed}
}

func (f *facts) RoleOf(_ *gang.Group, pod *corev1.Pod) *core.Role {
	if role, ok := pod.Labels["role"]; ok {
		return &core.Role{Name: role, Needs: 1}
	}
	return nil
}

func (f *facts) NeverPreempts(g *gang.Group, pods ...*corev1.Pod) bool {
	return NewClassTolerations(schedulinglisters.NewPriorityClassLister(f.classes)).NeverPreempts(g, pods...)
}

func (f *facts) Degraded(g *gang.Group) Degraded { return f.degraded[g.Key] }

// VictimPriority is part of Groups. Each PriorityClass has the value 100.
func (f *facts) VictimPriority(g *gang.Group, scheduling int32, _ string) int32 {
	priority, _ := g.VictimPriority(scheduling, func(string) (int32, bool) { return 100, true })
	return priority
}

func (f *facts) Placed(types.NamespacedName) []*corev1.Pod { return f.placed }

func (f *facts) DepartureOf(pod *corev1.Pod) Departure {
	f.reads++
	switch {
	case f.overdue[pod.UID]:
		return Overdue
	case f.late[pod.UID]:
		return LeavesLate
	case pod.DeletionTimestamp != nil || f.disrupted[pod.UID]:
		return Leaves
	default:
		return Stays
	}
}

func (f *facts) RefusedUntil(pod *corev1.Pod) time.Time { return f.refused[pod.Name] }

func (f *facts) OfPod(*corev1.Pod) *core.Toleration { return nil }

func (f *facts) OfClass(string, time.Time) *core.Toleration { return nil }

func (f *facts) OfNever(string, time.Time) *core.Toleration { return nil }

func (f *facts) OfGroup(*gang.Group, int32, time.Time) *core.Toleration { return nil }

// QueueOf returns "q" for members of gangs, and "" for other pods.
func (f *facts) QueueOf(pod *corev1.Pod) string {
	key, _ := f.GroupOf(pod)
	if g := f.groups[key]; g != nil && g.MinCount > 0 {
		return "q"
	}
	return ""
}

func (f *facts) QueueOfGroup(*gang.Group) string { return "" }

func (f *facts) Standing([]string) *queue.Snapshot { return nil }

// MinRuntimeOf returns a min-runtime of an hour for pods of the profile patient.
func (f *facts) MinRuntimeOf(pod *corev1.Pod) *core.MinRuntime {
	if pod.Spec.SchedulerName == "patient" {
		return patient
	}
	return nil
}

func (f *facts) MinRuntimeOfGroup(types.NamespacedName) *core.MinRuntime { return f.minRuntime }

var patient = &core.MinRuntime{Preempt: int64(time.Hour), Resolve: core.ResolveLCA}

func (f *facts) Delegates(name corev1.ResourceName) bool { return f.delegated[name] }

// stage is the framework's cache and snapshot, with a Cache that is kept in sync with them.
type stage struct {
	t        *testing.T
	facts    *facts
	cache    internalcache.Cache
	snapshot *internalcache.Snapshot
	kept     *Cache
}

func newStage(t *testing.T) *stage {
	t.Helper()
	f := newFacts()
	return &stage{
		t: t, facts: f, kept: NewCache(f.sources()),
		cache: internalcache.New(t.Context(), nil, false, false), snapshot: internalcache.NewEmptySnapshot(),
	}
}

// addNodes adds nodes with four CPUs each.
func (s *stage) addNodes(names ...string) {
	for _, name := range names {
		s.cache.AddNode(klog.Background(), node(name, "4"))
	}
}

func (s *stage) addPods(pods ...*corev1.Pod) {
	s.t.Helper()
	for _, p := range pods {
		if err := s.cache.AddPod(klog.Background(), p); err != nil {
			s.t.Fatal(err)
		}
	}
}

// level updates the framework's snapshot and the Cache. It returns the error of Level.
func (s *stage) level() error {
	s.t.Helper()
	s.facts.reads, s.facts.asked = 0, 0
	if err := s.cache.UpdateSnapshot(klog.Background(), s.snapshot); err != nil {
		s.t.Fatal(err)
	}
	infos, err := s.snapshot.List()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.kept.Level(infos, nil)
}

// view calls level and returns a View with these reservations.
func (s *stage) view(promises ...ReservedRoom) *View {
	s.t.Helper()
	if err := s.level(); err != nil {
		s.t.Fatal(err)
	}
	return s.kept.View(promises)
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

func node(name, cpu string) *corev1.Node {
	return st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
		Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: "64Gi", corev1.ResourcePods: "110"}).Obj()
}

// pod returns a pod that requests CPUs. It is in the group, or in none if group is "".
func pod(name, group, cpu string, priority int32) *corev1.Pod {
	p := st.MakePod().Namespace("ns").Name(name).UID("uid-" + name).
		Priority(priority).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj()
	p.Labels = map[string]string{}
	if group != "" {
		p.Labels[v1alpha1.LabelPodGroup] = group
	}
	return p
}

// on puts a pod on a node.
func on(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }
