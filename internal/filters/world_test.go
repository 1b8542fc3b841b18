package filters

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// world is a fake cluster, with the default scheduler profile and the in-tree filters.
type world struct {
	// minCount is the minCount of gangs; 0 for the number of members.
	minCount int
	t        testing.TB
	profile  framework.Framework
	cache    internalcache.Cache
	client   *fake.Clientset
	// resources is used for several decisions, as in a scheduler.
	resources *Resources
	claims    snapshot.Claims
}

func newWorld(t *testing.T, extenders []config.Extender, objects ...runtime.Object) *world {
	t.Helper()
	return newWorldWith(t, kubescheduler.WithExtenders(extenders...), objects...)
}

// newWorldWith is like newWorld, and also passes an option to the scheduler.
func newWorldWith(t *testing.T, option kubescheduler.Option, objects ...runtime.Object) *world {
	t.Helper()
	client := fake.NewClientset(objects...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	factory := informers.NewSharedInformerFactory(client, 0)
	recorders := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	sched, err := kubescheduler.New(ctx, client, factory, nil, recorders, option)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, profile: sched.Profiles[corev1.DefaultSchedulerName], cache: sched.Cache, client: client, claims: factory.Core().V1().PersistentVolumeClaims().Lister()}
	w.resources = NewResources(w.profile)
	w.level()
	return w
}

// level updates the framework's snapshot from the scheduler's cache.
func (w *world) level() {
	w.t.Helper()
	listed, ok := w.profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		w.t.Fatal("The framework's snapshot is of another type")
	}
	if err := w.cache.UpdateSnapshot(klog.Background(), listed); err != nil {
		w.t.Fatal(err)
	}
}

// decide returns the decision for pods. If the pods have a group, they are a gang.
func (w *world) decide(pods ...*corev1.Pod) *core.Decision {
	w.t.Helper()
	d, _, err := w.oracle(pods...).Decide()
	if err != nil {
		w.t.Fatal(err)
	}
	return &d
}

func (w *world) oracle(pods ...*corev1.Pod) *Oracle {
	w.t.Helper()
	return w.oracleBeside(nil, pods...)
}

// oracleBeside returns the Oracle for pods, in a cluster where the promised pods have reservations.
func (w *world) oracleBeside(promised []*corev1.Pod, pods ...*corev1.Pod) *Oracle {
	w.t.Helper()
	promises := make([]snapshot.ReservedRoom, len(promised))
	for i, pod := range promised {
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			w.t.Fatal(err)
		}
		promises[i] = snapshot.ReservedRoom{Pod: pi, Node: pod.Status.NominatedNodeName, Respected: true}
	}
	infos, err := w.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		w.t.Fatal(err)
	}
	cache := snapshot.NewCache(snapshot.Sources{
		Membership: plain{}, Groups: plain{}, Disruptions: plain{}, Tolerations: plain{}, Queues: plain{}, Profiles: plain{}, Delegation: w.resources,
	})
	if err := cache.Level(infos, nil); err != nil {
		w.t.Fatal(err)
	}
	classes, err := snapshot.ClassesOf(pods, w.claims, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	v := cache.View(promises)
	_, isGang := gang.GroupOf(pods[0])
	o, err := NewOracle(w.t.Context(), w.profile, v, &core.Preemptor{
		Namespace: "ns", Name: "preemptor", UID: "preemptor", Gang: isGang, Priority: *pods[0].Spec.Priority, MinCount: cmp.Or(w.minCount, len(pods)),
		Classes: v.Describe(classes, w.resources),
	}, classes)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// plain is the source of groups, queues and tolerations for a cluster that has none of these.
type plain struct{}

func (plain) GroupOf(*corev1.Pod) (types.NamespacedName, bool)    { return types.NamespacedName{}, false }
func (plain) Group(types.NamespacedName) (*gang.Group, bool)      { return nil, false }
func (plain) NeverGroup(types.NamespacedName) (*gang.Group, bool) { return nil, false }
func (plain) PodGroupOf(*corev1.Pod) (types.NamespacedName, bool) {
	return types.NamespacedName{}, false
}
func (plain) WorkloadOf(types.NamespacedName) (*gang.Group, bool) { return nil, false }
func (plain) Placed(types.NamespacedName) []*corev1.Pod           { return nil }
func (plain) RoleOf(*gang.Group, *corev1.Pod) *core.Role          { return nil }
func (plain) NeverPreempts(*gang.Group, ...*corev1.Pod) bool      { return false }
func (plain) Degraded(*gang.Group) snapshot.Degraded              { return snapshot.Degraded{} }

func (plain) VictimPriority(_ *gang.Group, scheduling int32, _ string) int32 { return scheduling }

func (plain) RunOf(g *gang.Group) engine.Run {
	return engine.Run{Start: g.StartTime, Clock: g.StartTime}
}
func (plain) DepartureOf(pod *corev1.Pod) snapshot.Departure {
	if pod.DeletionTimestamp != nil {
		return snapshot.Leaves
	}
	return snapshot.Stays
}
func (plain) RefusedUntil(*corev1.Pod) time.Time                      { return time.Time{} }
func (plain) OfPod(*corev1.Pod) *core.Toleration                      { return nil }
func (plain) OfClass(string, time.Time) *core.Toleration              { return nil }
func (plain) OfNever(string, time.Time) *core.Toleration              { return nil }
func (plain) OfGroup(*gang.Group, int32, time.Time) *core.Toleration  { return nil }
func (plain) QueueOf(*corev1.Pod) string                              { return "" }
func (plain) QueueOfGroup(*gang.Group) string                         { return "" }
func (plain) MinRuntimeOf(*corev1.Pod) *core.MinRuntime               { return nil }
func (plain) MinRuntimeOfGroup(types.NamespacedName) *core.MinRuntime { return nil }
func (plain) Standing([]string) *queue.Snapshot                       { return nil }

func node(name, cpu string) *corev1.Node {
	return st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
		Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: "64Gi", corev1.ResourcePods: "110"}).Obj()
}

func nodes(count int, cpu string) []runtime.Object {
	out := make([]runtime.Object, count)
	for i := range out {
		out[i] = node(fmt.Sprintf("node-%d", i), cpu)
	}
	return out
}

// pod returns a pod that requests CPUs. If group is set, the pod is a member of this group.
func pod(name, group, cpu string, priority int32) *corev1.Pod {
	p := st.MakePod().Namespace("ns").Name(name).UID("uid-" + name).SchedulerName(corev1.DefaultSchedulerName).
		Priority(priority).Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj()
	if group != "" {
		p.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
	}
	return p
}

// on sets the node of a pod.
func on(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

func members(group string, count int, cpu string, priority int32) []*corev1.Pod {
	out := make([]*corev1.Pod, count)
	for i := range out {
		out[i] = pod(fmt.Sprintf("%s-%d", group, i), group, cpu, priority)
	}
	return out
}

// with returns the objects and the pods in one list.
func with(objects []runtime.Object, pods ...*corev1.Pod) []runtime.Object {
	out := slices.Clone(objects)
	for _, p := range pods {
		out = append(out, p)
	}
	return out
}

// wrap returns the upstream builder for a copy of the pod.
func wrap(p *corev1.Pod) *st.PodWrapper { return &st.PodWrapper{Pod: *p} }

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func victims(d *core.Decision) []string {
	var names []string
	for _, v := range d.Victims {
		for _, p := range v.Pods {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func placedOn(d *core.Decision) []string {
	var names []string
	for _, p := range d.Placements {
		names = append(names, p.Node)
	}
	slices.Sort(names)
	return names
}
