package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// theatre is a cluster that changes at random, with the framework's cache and snapshot of it.
type theatre struct {
	rt       *rapid.T
	cache    internalcache.Cache
	snapshot *internalcache.Snapshot
	nodes    map[string]*corev1.Node
	pods     map[string]*corev1.Pod
	budgets  map[string]*policyv1.PodDisruptionBudget
	facts    *facts
	kept     *Cache
	serial   int
}

func newTheatre(rt *rapid.T) *theatre {
	f := newFacts()
	th := &theatre{
		rt: rt, cache: internalcache.New(rt.Context(), nil, false, false), snapshot: internalcache.NewEmptySnapshot(),
		nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, facts: f, kept: NewCache(f.sources()),
	}
	// The node full has no room for pods, but has GPUs. So each cache has a dimension for GPUs,
	// even if no other node has any.
	th.cache.AddNode(klog.Background(), withGPUs(node("full", "0")))
	return th
}

func withGPUs(n *corev1.Node) *corev1.Node {
	n.Status.Allocatable["example.com/gpu"] = quantity("2")
	return n
}

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
		withGPUs(n)
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
	p.Labels["app"] = rapid.SampledFrom([]string{"x", "y"}).Draw(th.rt, "app")
	if rapid.Bool().Draw(th.rt, "gpu") {
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = quantity("1")
	}
	if rapid.Bool().Draw(th.rt, "ready") {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
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
	if _, ok := th.facts.groups[k]; ok && rapid.Bool().Draw(th.rt, "delete") {
		delete(th.facts.groups, k)
	} else {
		g := &gang.Group{Key: k, UID: types.UID("uid-" + k.Name), MinCount: rapid.IntRange(0, 2).Draw(th.rt, "minCount"),
			Priority: ptr.To(rapid.Int32Range(0, 3).Draw(th.rt, "priority")), Whole: rapid.Bool().Draw(th.rt, "whole")}
		if start := rapid.Int64Range(0, 3).Draw(th.rt, "start"); start > 0 {
			g.StartTime = time.Unix(0, start)
		}
		if stops := rapid.Int32Range(0, 2).Draw(th.rt, "stops"); stops > 0 {
			g.Stops, g.StoppedAt = stops, time.Unix(0, int64(stops))
		}
		th.facts.groups[k] = g
	}
	th.kept.GroupChanged(k)
}

// rederive changes the derived group of a pod. The pod itself does not change.
func (th *theatre) rederive() {
	if len(th.pods) == 0 {
		return
	}
	p := th.pods[th.pick(slices.Collect(maps.Keys(th.pods)))]
	if _, ok := th.facts.derived[p.UID]; ok {
		delete(th.facts.derived, p.UID)
	} else {
		th.facts.derived[p.UID] = key(rapid.SampledFrom([]string{"g0", "g1"}).Draw(th.rt, "group"))
	}
	th.kept.NodeChanged(p.Spec.NodeName)
}

// flip changes the result of a source for a pod. The pod itself does not change.
func (th *theatre) flip(said map[types.UID]bool) {
	if len(th.pods) == 0 {
		return
	}
	p := th.pods[th.pick(slices.Collect(maps.Keys(th.pods)))]
	said[p.UID] = !said[p.UID]
	th.kept.NodeChanged(p.Spec.NodeName)
}

func (th *theatre) changeBudget() {
	name := rapid.SampledFrom([]string{"b0", "b1", "b2"}).Draw(th.rt, "budget")
	if th.budgets[name] != nil && rapid.Bool().Draw(th.rt, "delete") {
		delete(th.budgets, name)
		return
	}
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	switch app := rapid.SampledFrom([]string{"x", "y", "none", "all"}).Draw(th.rt, "app"); app {
	case "none":
	case "all":
		pdb.Spec.Selector = &metav1.LabelSelector{}
	default:
		pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	pdb.Status.DisruptionsAllowed = rapid.Int32Range(0, 1).Draw(th.rt, "allowed")
	if rapid.Bool().Draw(th.rt, "always") {
		pdb.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
	}
	if len(th.pods) > 0 && rapid.Bool().Draw(th.rt, "counted") {
		pdb.Status.DisruptedPods = map[string]metav1.Time{th.pick(slices.Collect(maps.Keys(th.pods))): {}}
	}
	th.budgets[name] = pdb
}

// mapGPUs adds a DeviceClass for GPUs, or removes it.
func (th *theatre) mapGPUs() {
	th.facts.delegated["example.com/gpu"] = !th.facts.delegated["example.com/gpu"]
}

// decide returns the decision of the core for a gang that requests CPUs and GPUs, with the View of
// a cache.
func (th *theatre) decide(c *Cache, infos []fwk.NodeInfo, pods []*corev1.Pod) string {
	th.must(c.Level(infos, slices.Collect(maps.Values(th.budgets))))
	classes, err := ClassesOf(pods, nil, nil)
	th.must(err)
	v := c.View(nil)
	in := v.Describe(classes, delegating{countsAll{}, th.facts})
	d, err := core.Decide(v.Cluster, &core.Preemptor{Namespace: "ns", Name: "g", UID: "g", Gang: len(pods) > 1,
		Priority: 2, MinCount: len(pods), PodGroup: "uid-g1", Classes: in}, core.Arithmetic{})
	th.must(err)
	out, err := json.Marshal(&d)
	th.must(err)
	return string(out)
}

// countsAll is a ResourceFilter for which all resources count.
type countsAll struct{}

func (countsAll) Ignores(corev1.ResourceName) bool { return false }

func (countsAll) Delegates(corev1.ResourceName) bool { return false }

// delegating is a ResourceFilter that delegates the resources of the facts to DynamicResources.
type delegating struct {
	countsAll
	facts *facts
}

func (d delegating) Delegates(name corev1.ResourceName) bool { return d.facts.Delegates(name) }

func (th *theatre) check() {
	th.must(th.cache.UpdateSnapshot(klog.Background(), th.snapshot))
	infos, err := th.snapshot.List()
	th.must(err)
	var pods []*corev1.Pod
	for i := range rapid.IntRange(1, 4).Draw(th.rt, "members") {
		p := pod(fmt.Sprintf("m%d", i), "", "1", 2)
		if rapid.Bool().Draw(th.rt, "asks for a gpu") {
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = quantity("1")
		}
		pods = append(pods, p)
	}
	anew := NewCache(th.facts.sources())
	kept, fresh := th.decide(th.kept, infos, pods), th.decide(anew, infos, pods)
	if kept != fresh {
		th.rt.Fatalf("kept:  %s\nfresh: %s", kept, fresh)
	}
	for key, nodes := range th.kept.whereabouts.nodes {
		slices.Sort(nodes)
		slices.Sort(anew.whereabouts.nodes[key])
	}
	if diff := cmp.Diff(anew.unleft, th.kept.unleft); diff != "" {
		th.rt.Fatalf("the queues of overdue pods are others than is kept (-fresh +kept):\n%s", diff)
	}
	if diff := cmp.Diff(anew.whereabouts, th.kept.whereabouts, cmp.AllowUnexported(whereabouts{})); diff != "" {
		th.rt.Fatalf("members stand elsewhere than is kept (-fresh +kept):\n%s", diff)
	}
}

// TestCacheIsLevel checks that a cache that has followed random changes equals a new cache.
func TestCacheIsLevel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		th := newTheatre(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"add or change a node": func(*rapid.T) { th.addNode() },
			"remove a node":        func(*rapid.T) { th.removeNode() },
			"add a pod":            func(*rapid.T) { th.addPod() },
			"add another pod":      func(*rapid.T) { th.addPod() },
			"end a pod":            func(*rapid.T) { th.endPod() },
			"disrupt a pod":        func(*rapid.T) { th.flip(th.facts.disrupted) },
			"be overdue, or not":   func(*rapid.T) { th.flip(th.facts.overdue) },
			"leave late, or not":   func(*rapid.T) { th.flip(th.facts.late) },
			"derive a group":       func(*rapid.T) { th.rederive() },
			"change a group":       func(*rapid.T) { th.changeGroup() },
			"change a budget":      func(*rapid.T) { th.changeBudget() },
			"map the GPUs, or not": func(*rapid.T) { th.mapGPUs() },
			"":                     func(*rapid.T) { th.check() },
		})
	})
}

// TestLevelCostsWhatHasChanged checks that Level does not read an unchanged node again.
func TestLevelCostsWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	reads := func() int {
		t.Helper()
		if err := s.level(); err != nil {
			t.Fatal(err)
		}
		return s.facts.reads
	}
	for i := range 10 {
		name := fmt.Sprintf("node-%d", i)
		s.addNodes(name)
		s.addPods(on(pod("p"+name, "g", "1", 0), name))
	}
	if got := reads(); got != 10 {
		t.Errorf("%d pods read at first, want 10", got)
	}
	if got := reads(); got != 0 {
		t.Errorf("%d pods read although nothing has changed", got)
	}
	s.addPods(on(pod("new", "", "1", 0), "node-3"))
	if got := reads(); got != 2 {
		t.Errorf("%d pods read after one node has changed, want its 2", got)
	}
	s.addNodes("node-99")
	if got := reads(); got != 0 {
		t.Errorf("%d pods read after an empty node was added", got)
	}
	s.kept.GroupChanged(key("g"))
	if got := reads(); got != 11 {
		t.Errorf("%d pods read after their group has changed, want all 11", got)
	}
	s.kept.GroupChanged(key("other"))
	if got := reads(); got != 0 || s.facts.asked != 0 {
		t.Errorf("%d pods read, and the groups of %d asked for, after a group without any has changed", got, s.facts.asked)
	}
	s.kept.NodeChanged("node-3")
	if got := reads(); got != 2 {
		t.Errorf("%d pods read after one of a node is disrupted, want its 2", got)
	}
	s.kept.Invalidate()
	for _, want := range []int{11, 0} {
		if got := reads(); got != want {
			t.Errorf("%d pods read after all has become invalid, want %d", got, want)
		}
	}
}

// TestOneClockOnAllNodes checks that a group is read again on all its nodes if its facts have
// changed on one of them.
func TestOneClockOnAllNodes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	group := gang.Group{Key: key("g"), UID: "uid-g", MinCount: 2, Priority: ptr.To[int32](0), StartTime: time.Unix(1000, 0)}
	s.facts.groups[group.Key] = &group
	s.addNodes("node-0", "node-1", "node-2")
	s.addPods(on(pod("a", "g", "1", 0), "node-0"), on(pod("b", "g", "1", 0), "node-1"), on(pod("other", "", "1", 0), "node-2"))
	want := func(when string, reads int, start time.Time) {
		t.Helper()
		v := s.view()
		if s.facts.reads != reads {
			t.Errorf("%s: %d pods read, want %d", when, s.facts.reads, reads)
		}
		for i := range v.Cluster.Units {
			if u := &v.Cluster.Units[i]; u.PodGroup != "" && u.Since != Nanos(start) {
				t.Errorf("%s: the clock of %s is %d, want %d", when, u.Pods[0].Name, u.Since, Nanos(start))
			}
		}
	}
	want("at first", 3, group.StartTime)
	anew := group
	anew.StartTime = time.Unix(2000, 0)
	s.facts.groups[group.Key] = &anew
	want("before anything is read", 0, group.StartTime)
	s.addPods(on(pod("c", "g", "1", 0), "node-1"))
	want("once a node is", 3, anew.StartTime)
	s.kept.GroupChanged(group.Key)
	want("once it is said that it has changed", 3, anew.StartTime)
	want("after that", 0, anew.StartTime)
	stopped := anew
	stopped.Stops, stopped.StoppedAt = 2, time.Unix(1500, 0)
	s.facts.groups[group.Key] = &stopped
	s.addPods(on(pod("d", "g", "1", 0), "node-1"))
	want("once it was stopped and a node is read", 4, anew.StartTime)
	v := s.view()
	for i := range v.Cluster.Units {
		if u := &v.Cluster.Units[i]; u.PodGroup != "" && u.Stops != (core.Stops{Count: 2, Last: Nanos(stopped.StoppedAt)}) {
			t.Errorf("the stops of %s are %+v", u.Pods[0].Name, u.Stops)
		}
	}
	if delete(s.facts.groups, group.Key); len(s.kept.stood) != 1 {
		t.Errorf("%d groups are known, want one", len(s.kept.stood))
	}
	s.kept.GroupChanged(group.Key)
	if want("once it is gone", 4, time.Time{}); len(s.kept.stood) != 0 {
		t.Error("A group that is gone is known")
	}
}

// TestLevelStartsOverAfterAnError checks that the requests of GroupChanged are not lost if Level
// fails.
func TestLevelStartsOverAfterAnError(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	group := &gang.Group{Key: key("g"), UID: "uid-g", Whole: true, Priority: ptr.To[int32](0)}
	s.facts.groups[group.Key] = group
	for _, name := range []string{"node-0", "node-1"} {
		s.addNodes(name)
		s.addPods(on(pod("p-"+name, "g", "1", 0), name))
	}
	if err := s.level(); err != nil {
		t.Fatal(err)
	}
	// Any node is rejected by a cluster with other dimensions.
	s.kept.cluster = core.NewCluster([]string{"one"})
	group.Priority = ptr.To[int32](7)
	s.kept.GroupChanged(group.Key)
	if err := s.level(); err == nil {
		t.Fatal("No error")
	}
	if err := s.level(); err != nil {
		t.Fatalf("After an error: %v", err)
	}
	got := s.kept.View(nil).Cluster
	if len(got.Nodes) != 2 || len(got.Units) != 1 || got.Units[0].Priority != 7 {
		t.Errorf("After an error there are %d nodes with %+v", len(got.Nodes), got.Units)
	}
}
