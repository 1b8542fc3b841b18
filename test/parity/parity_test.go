package parity

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

const profileName = "parity"

var (
	cases = flag.Int("parity.cases", 2000, "generated clusters in which a pod has to preempt")
	first = flag.Uint64("parity.first", 0, "the first seed")
)

// noGroups is a gang.Source without PodGroups.
type noGroups struct{}

func (noGroups) Group(types.NamespacedName) (*gang.Group, bool) { return nil, false }

// capture is an Evictor that records orders and evicts no pod.
type capture struct{ orders []eviction.Order }

func (c *capture) Evict(_ context.Context, order eviction.Order, _ eviction.Scheduler) <-chan eviction.Outcome {
	c.orders = append(c.orders, order)
	return make(chan eviction.Outcome)
}

func (*capture) Nominate(context.Context, []podstatus.Nomination) {}

// rig is a framework with two plugins for preemption: Reprieve's and upstream's.
type rig struct {
	framework framework.Framework
	ours      fwk.PostFilterPlugin
	upstream  *defaultpreemption.DefaultPreemption
	captured  *capture
}

// quiet returns the context of the test with a logger that discards all messages.
func quiet(t *testing.T) context.Context {
	t.Helper()
	return klog.NewContext(t.Context(), logr.Discard())
}

// filters returns the names of the enabled Filter plugins.
func filters() []string {
	return []string{
		names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
		names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity, names.VolumeRestrictions,
	}
}

func newRig(t *testing.T, c *cluster) *rig {
	t.Helper()
	ctx := quiet(t)
	client := fake.NewClientset(c.objects()...)
	factory := informers.NewSharedInformerFactory(client, 0)
	snapshot := internalcache.NewSnapshot(c.running, c.nodes)
	queue := internalqueue.NewTestQueueWithObjects(ctx, (&queuesort.PrioritySort{}).Less, c.objects())
	captured := &capture{}
	reprieve := scheduler.NewPlugins(scheduler.Inputs{Groups: noGroups{}, Engine: engine.New(nil), Evictor: captured})
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := &config.KubeSchedulerProfile{
		SchedulerName: profileName, Plugins: &config.Plugins{}, PluginConfig: defaults.Profiles[0].PluginConfig,
	}
	enable := func(set *config.PluginSet, name string) {
		set.Enabled = append(set.Enabled, config.Plugin{Name: name})
	}
	enable(&profile.Plugins.QueueSort, names.PrioritySort)
	enable(&profile.Plugins.Bind, names.DefaultBinder)
	for _, name := range filters() {
		enable(&profile.Plugins.Filter, name)
		switch name {
		case names.NodeUnschedulable, names.NodeName, names.TaintToleration:
		default:
			enable(&profile.Plugins.PreFilter, name)
		}
	}
	fw, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithPodNominator(queue), frameworkruntime.WithPodActivator(queue),
	)
	if err != nil {
		t.Fatalf("make the framework: %v", err)
	}
	args := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: math.MaxInt32}
	upstream, err := defaultpreemption.New(ctx, args, fw, feature.Features{})
	if err != nil {
		t.Fatalf("make upstream's plugin: %v", err)
	}
	// The order of victims is kube-scheduler's, which does not count lost work.
	made, err := reprieve.Registry()[scheduler.Name](ctx, &configv1alpha1.ReprieveArgs{VictimOrder: configv1alpha1.PriorityOrder(configv1alpha1.CascadeOff)}, fw)
	if err != nil {
		t.Fatalf("make Reprieve's plugin: %v", err)
	}
	ours, ok := made.(fwk.PostFilterPlugin)
	if !ok {
		t.Fatalf("%T is no PostFilter plugin", made)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	err = wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) { return reprieve.Scheduler().HasSynced(), nil })
	if err != nil {
		t.Fatalf("wait until Reprieve knows the cluster: %v", err)
	}
	// Add the nominated pods to the queue. Without that, the framework has only their names.
	for _, pod := range c.nominated {
		queue.Add(ctx, pod)
	}
	return &rig{framework: fw, ours: ours, upstream: upstream, captured: captured}
}

// score has the cost of a set of victims by the criteria of KEP-5710. Scores are compared field by
// field, in the order of the fields. A smaller value is better.
type score struct {
	broken      int
	highest     int32
	sum         int64
	pods        int
	latestStart int64
}

func compare(a, b score) int {
	return cmp.Or(
		cmp.Compare(a.broken, b.broken), cmp.Compare(a.highest, b.highest), cmp.Compare(a.sum, b.sum),
		cmp.Compare(a.pods, b.pods), cmp.Compare(b.latestStart, a.latestStart),
	)
}

// scoreOf computes the score of victims without code of Reprieve and upstream.
func scoreOf(victims []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget) score {
	victims = slices.Clone(victims)
	slices.SortFunc(victims, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(*b.Spec.Priority, *a.Spec.Priority), a.Status.StartTime.Compare(b.Status.StartTime.Time),
			cmp.Compare(a.UID, b.UID))
	})
	left := make([]int32, len(budgets))
	for i := range budgets {
		left[i] = budgets[i].Status.DisruptionsAllowed
	}
	s := score{highest: math.MinInt32, pods: len(victims), latestStart: math.MaxInt64}
	for _, v := range victims {
		broken := false
		for i, b := range budgets {
			if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selector.Matches(labels.Set(v.Labels)) {
				left[i]--
				broken = broken || left[i] < 0
			}
		}
		if broken {
			s.broken++
		}
		s.sum += int64(*v.Spec.Priority) + math.MaxInt32 + 1
		s.highest = max(s.highest, *v.Spec.Priority)
	}
	for _, v := range victims {
		if *v.Spec.Priority == s.highest {
			s.latestStart = min(s.latestStart, v.Status.StartTime.UnixNano())
		}
	}
	return s
}

// verdict is the decision of Reprieve or of upstream for a case.
type verdict struct {
	feasible bool
	node     string
	victims  []*corev1.Pod
	score    score
}

func (v verdict) String() string {
	if !v.feasible {
		return "infeasible"
	}
	var who []string
	for _, p := range v.victims {
		who = append(who, fmt.Sprintf("%s(%d)", p.Name, *p.Spec.Priority))
	}
	return fmt.Sprintf("%s takes %v, score %+v", v.node, who, v.score)
}

// needsPreemption runs PreFilter and Filter like a scheduling cycle. It returns false if the pod
// fits without an eviction, or if no eviction can help.
func (r *rig) needsPreemption(t *testing.T, c *cluster) (fwk.CycleState, *framework.NodeToStatus, bool) {
	t.Helper()
	state := framework.NewCycleState()
	_, status, _ := r.framework.RunPreFilterPlugins(t.Context(), state, c.preemptor)
	if !status.IsSuccess() {
		return nil, nil, false
	}
	statuses := framework.NewDefaultNodeToStatus()
	for _, info := range r.nodes(t) {
		status := r.framework.RunFilterPluginsWithNominatedPods(t.Context(), state, c.preemptor, info)
		if status.IsSuccess() {
			return nil, nil, false
		}
		statuses.Set(info.Node().Name, status)
	}
	return state, statuses, true
}

func (r *rig) nodes(t *testing.T) []fwk.NodeInfo {
	t.Helper()
	infos, err := r.framework.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	return infos
}

// upstreamBest returns the best of upstream's decisions: upstream selects victims on each node
// separately.
func (r *rig) upstreamBest(t *testing.T, c *cluster, state fwk.CycleState) verdict {
	t.Helper()
	var best verdict
	for _, info := range r.nodes(t) {
		possible, err := r.upstream.Evaluator.GetVictimsOnNode(t.Context(), info)
		if err != nil {
			t.Fatal(err)
		}
		victims, _, status := r.upstream.SelectVictimsOnNode(t.Context(), state.Clone(), c.preemptor, info.Snapshot(), possible, c.budgets)
		if !status.IsSuccess() {
			continue
		}
		v := verdict{feasible: true, node: info.Node().Name, victims: victims, score: scoreOf(victims, c.budgets)}
		if !best.feasible || compare(v.score, best.score) < 0 {
			best = v
		}
	}
	return best
}

// upstreamFinds reports whether the pod fits without an eviction, or upstream finds victims on any
// node.
func upstreamFinds(t *testing.T, c *cluster) bool {
	t.Helper()
	r := newRig(t, c)
	state, _, needed := r.needsPreemption(t, c)
	return state == nil || !needed || r.upstreamBest(t, c, state).feasible
}

// oursBest returns the decision of Reprieve's plugin for the case.
func (r *rig) oursBest(t *testing.T, c *cluster, state fwk.CycleState, statuses *framework.NodeToStatus) verdict {
	t.Helper()
	result, status := r.ours.PostFilter(quiet(t), state, c.preemptor, statuses)
	if status.IsRejected() {
		return verdict{}
	}
	if !status.IsSuccess() {
		t.Fatalf("PostFilter: %v", status.AsError())
	}
	v := verdict{feasible: true, node: result.NominatedNodeName}
	if len(r.captured.orders) != 1 {
		t.Fatalf("PostFilter succeeded with %d evictions", len(r.captured.orders))
	}
	order := r.captured.orders[0]
	if order.Decision.Outcome != core.Preempts {
		t.Fatalf("an eviction for outcome %s", order.Decision.Outcome)
	}
	for _, pod := range order.Victims {
		v.victims = append(v.victims, pod)
	}
	v.score = scoreOf(v.victims, c.budgets)
	return v
}

// check checks the victims of a decision. They must run on the node of the decision and have lower
// priorities than the preemptor. Without the victims, the preemptor must pass the filters on the
// node. If one of the victims stays, the preemptor must fail the filters.
func (r *rig) check(t *testing.T, c *cluster, v verdict) {
	t.Helper()
	passes := func(gone []*corev1.Pod) bool {
		state := framework.NewCycleState()
		if _, status, _ := r.framework.RunPreFilterPlugins(t.Context(), state, c.preemptor); !status.IsSuccess() {
			return false
		}
		info, err := r.framework.SnapshotSharedLister().NodeInfos().Get(v.node)
		if err != nil {
			t.Fatal(err)
		}
		info = info.Snapshot()
		for _, pod := range gone {
			pi, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			if pod.Spec.NodeName != v.node {
				t.Errorf("victim %s is on %s, the preemptor goes to %s", pod.Name, pod.Spec.NodeName, v.node)
			}
			if err := info.RemovePod(klog.FromContext(t.Context()), pod); err != nil {
				t.Fatal(err)
			}
			if status := r.framework.RunPreFilterExtensionRemovePod(t.Context(), state, c.preemptor, pi, info); !status.IsSuccess() {
				t.Fatal(status.AsError())
			}
		}
		return r.framework.RunFilterPluginsWithNominatedPods(t.Context(), state, c.preemptor, info).IsSuccess()
	}
	if !passes(v.victims) {
		t.Errorf("the preemptor does not fit on %s with its victims gone", v.node)
	}
	for i, pod := range v.victims {
		if *pod.Spec.Priority >= *c.preemptor.Spec.Priority {
			t.Errorf("victim %s has priority %d, the preemptor %d", pod.Name, *pod.Spec.Priority, *c.preemptor.Spec.Priority)
		}
		if passes(slices.Delete(slices.Clone(v.victims), i, i+1)) {
			t.Errorf("victim %s is not needed", pod.Name)
		}
	}
}

// TestParity compares Reprieve and upstream on generated cases. Reprieve must find victims if and
// only if upstream finds victims on any node. The cost of Reprieve's victims must not exceed the
// cost of upstream's best victims.
//
// There is one exception, about pods that are nominated to other nodes. Upstream ignores these pods
// when it checks the filters. So it may evict victims for a preemptor that still does not fit once
// these pods run. Reprieve may find no victims in a case if upstream finds none either, once the
// nominated pods run on their nodes.
func TestParity(t *testing.T) {
	metrics.Register()
	preempting, feasible, better, careful := 0, 0, 0, 0
	for seed := *first; preempting < *cases; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			c := generate(seed)
			r := newRig(t, c)
			state, statuses, needed := r.needsPreemption(t, c)
			if !needed {
				return
			}
			preempting++
			want := r.upstreamBest(t, c, state)
			got := r.oursBest(t, c, state.Clone(), statuses)
			if want.feasible && !got.feasible && len(c.nominated) > 0 && !upstreamFinds(t, c.afterNominated()) {
				careful++
				return
			}
			if got.feasible != want.feasible {
				t.Fatalf("ours: %s; upstream: %s", got, want)
			}
			if !got.feasible {
				return
			}
			feasible++
			r.check(t, c, got)
			switch c := compare(got.score, want.score); {
			case c > 0:
				t.Errorf("ours is worse: %s; upstream: %s", got, want)
			case c < 0:
				better++
			}
		})
	}
	t.Logf("%d cases that need preemption, %d feasible, %d of them better than upstream's best node; %d left alone for pods that are nominated elsewhere",
		preempting, feasible, better, careful)
	if careful*100 > preempting {
		t.Errorf("%d of %d cases are left alone, want few", careful, preempting)
	}
}
