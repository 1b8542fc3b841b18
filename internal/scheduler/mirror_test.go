package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// theatre is a cluster that changes at random, with the framework's own cache and snapshot.
type theatre struct {
	rt       *rapid.T
	cache    internalcache.Cache
	snapshot *internalcache.Snapshot
	nodes    map[string]*corev1.Node
	pods     map[string]*corev1.Pod
	groups   map[types.NamespacedName]core.Group
	budgets  map[string]*policyv1.PodDisruptionBudget
	kept     *mirror
	serial   int
}

func newTheatre(rt *rapid.T) *theatre {
	th := &theatre{
		rt: rt, cache: internalcache.New(rt.Context(), nil, false), snapshot: internalcache.NewEmptySnapshot(),
		nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{},
		groups: map[types.NamespacedName]core.Group{}, budgets: map[string]*policyv1.PodDisruptionBudget{},
	}
	th.kept = th.mirror()
	return th
}

func (th *theatre) mirror() *mirror {
	return newMirror(facts{
		memberOf: gang.GroupOf,
		groupOf: func(key types.NamespacedName) (core.Group, bool) {
			g, ok := th.groups[key]
			return g, ok
		},
		isLeaving: func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil },
		tolerates: tolerateNothing, queueOf: inNoQueue, standing: noQueues,
	})
}

func inNoQueue(*corev1.Pod) string { return "" }

func noQueues([]string) *queue.Standing { return nil }

func tolerateNothing(*corev1.Pod) *core.Toleration { return nil }

func (th *theatre) pick(names []string) string {
	slices.Sort(names)
	return rapid.SampledFrom(names).Draw(th.rt, "which")
}

func (th *theatre) must(err error) {
	if err != nil {
		th.rt.Fatal(err)
	}
}

func (th *theatre) addNode() {
	name := fmt.Sprintf("node-%d", rapid.IntRange(0, 5).Draw(th.rt, "node"))
	n := node(name, rapid.SampledFrom([]string{"2", "4"}).Draw(th.rt, "cpu"))
	if rapid.Bool().Draw(th.rt, "gpus") {
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse("2")
	}
	if old := th.nodes[name]; old != nil {
		th.cache.UpdateNode(klog.Background(), old, n)
	} else {
		th.cache.AddNode(klog.Background(), n)
	}
	th.nodes[name] = n
}

func (th *theatre) removeNode() {
	if len(th.nodes) == 0 {
		return
	}
	name := th.pick(slices.Collect(maps.Keys(th.nodes)))
	th.must(th.cache.RemoveNode(klog.Background(), th.nodes[name]))
	delete(th.nodes, name)
}

func (th *theatre) addPod() {
	if len(th.nodes) == 0 {
		return
	}
	th.serial++
	group := rapid.SampledFrom([]string{"", "", "g0", "g1"}).Draw(th.rt, "group")
	p := on(pod(fmt.Sprintf("p%d", th.serial), group, "1", rapid.Int32Range(0, 3).Draw(th.rt, "priority")),
		th.pick(slices.Collect(maps.Keys(th.nodes))))
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels["app"] = rapid.SampledFrom([]string{"x", "y"}).Draw(th.rt, "app")
	if rapid.Bool().Draw(th.rt, "gpu") {
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	}
	th.must(th.cache.AddPod(klog.Background(), p))
	th.pods[p.Name] = p
}

func (th *theatre) endPod() {
	if len(th.pods) == 0 {
		return
	}
	old := th.pods[th.pick(slices.Collect(maps.Keys(th.pods)))]
	if old.DeletionTimestamp != nil {
		th.must(th.cache.RemovePod(klog.Background(), old))
		delete(th.pods, old.Name)
		return
	}
	p := old.DeepCopy()
	p.DeletionTimestamp = &metav1.Time{}
	th.must(th.cache.UpdatePod(klog.Background(), old, p))
	th.pods[p.Name] = p
}

func (th *theatre) changeGroup() {
	k := key(rapid.SampledFrom([]string{"g0", "g1"}).Draw(th.rt, "group"))
	if _, ok := th.groups[k]; ok && rapid.Bool().Draw(th.rt, "delete") {
		delete(th.groups, k)
	} else {
		th.groups[k] = core.Group{Namespace: k.Namespace, Name: k.Name, UID: "uid-" + k.Name,
			Priority: rapid.Int32Range(0, 3).Draw(th.rt, "priority"), Whole: rapid.Bool().Draw(th.rt, "whole"),
			Start: rapid.Int64Range(0, 3).Draw(th.rt, "start")}
	}
	th.kept.regroup(k)
}

func (th *theatre) changeBudget() {
	name := rapid.SampledFrom([]string{"b0", "b1", "b2"}).Draw(th.rt, "budget")
	if th.budgets[name] != nil && rapid.Bool().Draw(th.rt, "delete") {
		delete(th.budgets, name)
		return
	}
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": rapid.SampledFrom([]string{"x", "y"}).Draw(th.rt, "app")}}
	pdb.Status.DisruptionsAllowed = rapid.Int32Range(0, 1).Draw(th.rt, "allowed")
	if len(th.pods) > 0 && rapid.Bool().Draw(th.rt, "counted") {
		pdb.Status.DisruptedPods = map[string]metav1.Time{th.pick(slices.Collect(maps.Keys(th.pods))): {}}
	}
	th.budgets[name] = pdb
}

// decide asks the core for a gang of CPUs and GPUs on what a mirror shows.
func (th *theatre) decide(m *mirror, infos []fwk.NodeInfo, pods []*corev1.Pod) string {
	th.must(m.level(infos, slices.Collect(maps.Values(th.budgets))))
	classes, err := classesOf(pods)
	th.must(err)
	in, unknown := coreClasses(classes, &m.dimensions, func(corev1.ResourceName) bool { return false }, nil)
	for c := range in {
		for i := range in[c].Members {
			in[c].Members[i].Rank = i
		}
	}
	s := m.cluster.Snapshot()
	nameSpare(s, unknown)
	d, err := core.Decide(s, &core.Preemptor{Namespace: "ns", Name: "g", UID: "g", Gang: len(pods) > 1,
		Priority: 2, MinCount: len(pods), PodGroup: "uid-g1", Classes: in}, core.Arithmetic{})
	th.must(err)
	out, err := json.Marshal(&d)
	th.must(err)
	return string(out)
}

func (th *theatre) check() {
	th.must(th.cache.UpdateSnapshot(klog.Background(), th.snapshot))
	infos, err := th.snapshot.List()
	th.must(err)
	var pods []*corev1.Pod
	for i := range rapid.IntRange(1, 4).Draw(th.rt, "members") {
		p := pod(fmt.Sprintf("m%d", i), "", "1", 2)
		if rapid.Bool().Draw(th.rt, "asks for a gpu") {
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}
		pods = append(pods, p)
	}
	kept, fresh := th.decide(th.kept, infos, pods), th.decide(th.mirror(), infos, pods)
	if kept != fresh {
		th.rt.Fatalf("kept:  %s\nfresh: %s", kept, fresh)
	}
}

// TestMirrorIsLevel: whatever has changed, a mirror that was kept shows what a new one does.
func TestMirrorIsLevel(t *testing.T) {
	t.Parallel()
	metrics.Register()
	rapid.Check(t, func(rt *rapid.T) {
		th := newTheatre(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"add or change a node": func(*rapid.T) { th.addNode() },
			"remove a node":        func(*rapid.T) { th.removeNode() },
			"add a pod":            func(*rapid.T) { th.addPod() },
			"add another pod":      func(*rapid.T) { th.addPod() },
			"end a pod":            func(*rapid.T) { th.endPod() },
			"change a group":       func(*rapid.T) { th.changeGroup() },
			"change a budget":      func(*rapid.T) { th.changeBudget() },
			"":                     func(*rapid.T) { th.check() },
		})
	})
}

// TestLevelCostsWhatHasChanged: a node that has not changed is not read again.
func TestLevelCostsWhatHasChanged(t *testing.T) {
	t.Parallel()
	metrics.Register()
	reads := 0
	m := newMirror(facts{
		memberOf:  gang.GroupOf,
		groupOf:   func(types.NamespacedName) (core.Group, bool) { return core.Group{}, false },
		isLeaving: func(*corev1.Pod) bool { reads++; return false }, tolerates: tolerateNothing, queueOf: inNoQueue, standing: noQueues,
	})
	cache, snapshot := internalcache.New(t.Context(), nil, false), internalcache.NewEmptySnapshot()
	level := func() int {
		t.Helper()
		reads = 0
		if err := cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
			t.Fatal(err)
		}
		infos, err := snapshot.List()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.level(infos, nil); err != nil {
			t.Fatal(err)
		}
		return reads
	}
	for i := range 10 {
		name := fmt.Sprintf("node-%d", i)
		cache.AddNode(klog.Background(), node(name, "4"))
		p := on(pod("p"+name, "", "1", 0), name)
		p.Labels = map[string]string{v1alpha1.LabelPodGroup: "g"}
		if err := cache.AddPod(klog.Background(), p); err != nil {
			t.Fatal(err)
		}
	}
	if got := level(); got != 10 {
		t.Errorf("%d pods read at first, want 10", got)
	}
	if got := level(); got != 0 {
		t.Errorf("%d pods read although nothing has changed", got)
	}
	if err := cache.AddPod(klog.Background(), on(pod("new", "", "1", 0), "node-3")); err != nil {
		t.Fatal(err)
	}
	if got := level(); got != 2 {
		t.Errorf("%d pods read after one node has changed, want its 2", got)
	}
	cache.AddNode(klog.Background(), node("node-99", "4"))
	if got := level(); got != 0 {
		t.Errorf("%d pods read after an empty node was added", got)
	}
	m.regroup(key("g"))
	if got := level(); got != 11 {
		t.Errorf("%d pods read after their group has changed, want all 11", got)
	}
}

// TestLevelStartsOverAfterAnError: what was noted before is not lost.
func TestLevelStartsOverAfterAnError(t *testing.T) {
	t.Parallel()
	metrics.Register()
	group := core.Group{Namespace: "ns", Name: "g", UID: "uid-g", Whole: true}
	m := newMirror(facts{
		memberOf:  gang.GroupOf,
		groupOf:   func(types.NamespacedName) (core.Group, bool) { return group, true },
		isLeaving: func(*corev1.Pod) bool { return false }, tolerates: tolerateNothing, queueOf: inNoQueue, standing: noQueues,
	})
	cache, snapshot := internalcache.New(t.Context(), nil, false), internalcache.NewEmptySnapshot()
	for _, name := range []string{"node-0", "node-1"} {
		cache.AddNode(klog.Background(), node(name, "4"))
		if err := cache.AddPod(klog.Background(), on(pod("p-"+name, "g", "1", 0), name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
		t.Fatal(err)
	}
	infos, err := snapshot.List()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.level(infos, nil); err != nil {
		t.Fatal(err)
	}
	// A cluster of other dimensions takes no node.
	m.cluster = core.NewCluster([]string{"one"})
	group.Priority = 7
	m.regroup(key("g"))
	if err := m.level(infos, nil); err == nil {
		t.Fatal("No error")
	}
	if err := m.level(infos, nil); err != nil {
		t.Fatalf("After an error: %v", err)
	}
	s := m.cluster.Snapshot()
	if len(s.Nodes) != 2 || len(s.Units) != 1 || s.Units[0].Priority != 7 {
		t.Errorf("After an error there are %d nodes with %+v", len(s.Nodes), s.Units)
	}
}
