package bench

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// All profiles have the default plugins of kube-scheduler. In the profile of Reprieve, the plugin
// Reprieve replaces DefaultPreemption, and GangScheduling is off. The framework knows
// GangScheduling only while the feature gate GenericWorkload is on: a duel switches it on for
// upstream. reprieve-scheduler always runs with this gate off.
const (
	upstream         = "upstream"
	upstreamAllNodes = "upstream-all-nodes"
	profiles         = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: upstream
- schedulerName: upstream-all-nodes
  pluginConfig:
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 1}
- schedulerName: reprieve
  plugins:
    multiPoint:
      enabled: [{name: Reprieve}]
      disabled: [{name: DefaultPreemption}, {name: GangScheduling}]
    preFilter:
      enabled: [{name: Reprieve}]
  pluginConfig:
  - name: Reprieve
    args: {retry: {initialBackoff: 1ms, maxBackoff: 1ms}}
`
)

// rig is a scheduler for the cluster and the preemptor of a scene. Its informers never run. The rig
// fills their indexers directly, because a fake API server would be too slow for a hundred thousand
// pods. No goroutine runs between the calls of a rig.
type rig struct {
	*scene
	tb      testing.TB
	ctx     context.Context
	sched   *kubescheduler.Scheduler
	pods    cache.Indexer
	plugin  fwk.Plugin
	shared  *scheduler.Scheduler
	evictor *evictor
	engine  *engine.Engine
	// next is the index of the node whose pod changes next.
	next int
	// close stops the scheduler. It may be called more than once.
	close func()
}

// evictor is an Evictor that records the last order and evicts no pod.
type evictor struct {
	order    eviction.Order
	outcomes chan eviction.Outcome
}

// Evict implements scheduler.Evictor.
func (e *evictor) Evict(_ context.Context, order eviction.Order, _ eviction.Scheduler) <-chan eviction.Outcome {
	e.order, e.outcomes = order, make(chan eviction.Outcome, 1)
	return e.outcomes
}

// Nominate implements scheduler.Evictor. It does nothing.
func (*evictor) Nominate(context.Context, []podstatus.Nomination) {}

// errNobodyEvicts is the outcome of every order.
var errNobodyEvicts = errors.New("nobody is evicted in a benchmark")

func newRig(tb testing.TB, s shape) *rig {
	tb.Helper()
	return newSceneRig(tb, s.scene())
}

func newSceneRig(tb testing.TB, s *scene) *rig {
	tb.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(tb.Context()), logr.Discard()))
	r := &rig{
		scene: s, tb: tb, ctx: ctx, evictor: &evictor{},
		engine: engine.New(nil),
	}
	plugins := scheduler.NewPlugins(scheduler.Inputs{Groups: s.source(), Engine: r.engine, Evictor: r.evictor})
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	sched, err := kubescheduler.New(ctx, client, factory, nil,
		profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})),
		kubescheduler.WithProfiles(decodeProfiles(tb, profiles)...),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			scheduler.Name: func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
				made, err := plugins.Registry()[scheduler.Name](ctx, args, handle)
				r.plugin, r.shared = made, plugins.Scheduler()
				return made, err
			},
		}))
	if err != nil {
		tb.Fatal(err)
	}
	r.close = sync.OnceFunc(func() {
		cancel()
		sched.SchedulingQueue.Close()
	})
	tb.Cleanup(r.close)
	sched.FailureHandler = plugins.AfterFailures(sched.FailureHandler)
	r.sched, r.pods = sched, factory.Core().V1().Pods().Informer().GetIndexer()
	for _, budget := range s.budgets {
		r.must(factory.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer().Add(budget))
	}
	r.fill()
	return r
}

func decodeProfiles(tb testing.TB, yaml string) []config.KubeSchedulerProfile {
	tb.Helper()
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(yaml), nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		tb.Fatalf("The configuration is a %T", obj)
	}
	return cfg.Profiles
}

// fill adds the nodes and pods of the scene to the scheduler's cache and to the indexers.
func (r *rig) fill() {
	r.tb.Helper()
	logger := klog.FromContext(r.ctx)
	for n, node := range r.nodes {
		r.sched.Cache.AddNode(logger, node)
		for _, pod := range r.running[n] {
			r.must(r.sched.Cache.AddPod(logger, pod))
			r.must(r.pods.Add(pod))
		}
	}
	for _, pod := range r.pending {
		r.must(r.pods.Add(pod))
	}
	r.snapshot()
}

func (r *rig) must(err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Fatal(err)
	}
}

// snapshot updates the snapshot of the cluster, which all profiles share. A scheduling cycle begins
// with the same update.
func (r *rig) snapshot() {
	r.tb.Helper()
	snapshot, ok := r.framework(ours).SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		r.tb.Fatal("The framework's snapshot is of another type")
	}
	r.must(r.sched.Cache.UpdateSnapshot(klog.FromContext(r.ctx), snapshot))
}

func (r *rig) framework(name string) framework.Framework {
	r.tb.Helper()
	fw, ok := r.sched.Profiles[name]
	if !ok {
		r.tb.Fatalf("There is no profile %s", name)
	}
	return fw
}

// change updates one pod on each of a number of nodes. Each call selects other nodes.
func (r *rig) change(nodes int) {
	r.tb.Helper()
	for range nodes {
		pods := r.running[r.next%len(r.running)]
		changed := pods[0].DeepCopy()
		changed.Labels["revision"] = fmt.Sprint(r.next)
		r.must(r.sched.Cache.UpdatePod(klog.FromContext(r.ctx), pods[0], changed))
		r.must(r.pods.Update(changed))
		pods[0] = changed
		r.next++
	}
	r.snapshot()
}

// stopwatch measures the duration of a trial. A *testing.B implements it too.
type stopwatch interface {
	StartTimer()
	StopTimer()
}

// trial makes one decision. It calls StartTimer before the decision and StopTimer after it.
// Preparations are outside of this interval.
type trial func(watch stopwatch)

// pod returns a trial: Reprieve preempts for a single pod. Before each decision, pods on the given
// number of nodes change.
func (r *rig) pod(changedNodes int) trial {
	plugin, statuses := r.postFilter(), framework.NewDefaultNodeToStatus()
	return func(watch stopwatch) {
		if changedNodes > 0 {
			r.change(changedNodes)
		}
		ctx, over := context.WithCancel(r.ctx)
		state := framework.NewCycleState()
		watch.StartTimer()
		_, status := plugin.PostFilter(ctx, state, r.pending[0], statuses)
		watch.StopTimer()
		over()
		r.preempted(status)
	}
}

// inVain returns a trial: the scheduling cycle of a single pod that finds no room, from PreFilter
// to PostFilter.
func (r *rig) inVain() trial {
	fw, pod := r.framework(ours), r.pending[0]
	info, err := framework.NewPodInfo(pod)
	r.must(err)
	queued := &framework.QueuedPodInfo{PodInfo: info}
	return func(watch stopwatch) {
		state := framework.NewCycleState()
		watch.StartTimer()
		_, err := r.sched.SchedulePod(r.ctx, fw, state, queued)
		var nowhere *framework.FitError
		if !errors.As(err, &nowhere) {
			r.tb.Fatalf("The cycle ended with %v", err)
		}
		_, status := fw.RunPostFilterPlugins(r.ctx, state, pod, nowhere.Diagnosis.NodeToStatus)
		watch.StopTimer()
		if status.Code() != fwk.Unschedulable {
			r.tb.Fatalf("PostFilter: %s", status.Message())
		}
	}
}

func (r *rig) postFilter() fwk.PostFilterPlugin {
	plugin, ok := r.plugin.(fwk.PostFilterPlugin)
	if !ok {
		r.tb.Fatalf("%T is no PostFilter plugin", r.plugin)
	}
	return plugin
}

// plan returns a trial: the gang's leader plans for the gang. The index of units (columns) in the
// plugin is up to date before the first trial.
func (r *rig) plan() trial {
	cycle := r.leader()
	cycle.carryOut(&recorder{})
	cycle.plan(&recorder{})
	return func(watch stopwatch) { cycle.plan(watch) }
}

// planAndOrder returns a trial: PostFilter nominates the members of the gang and orders the
// eviction of the victims. The plan is made before, outside of the measured time.
func (r *rig) planAndOrder() trial {
	cycle := r.leader()
	return func(watch stopwatch) {
		cycle.plan(&recorder{})
		cycle.carryOut(watch)
	}
}

// leaderCycle runs the scheduling cycle of the gang's leader, which plans for the whole gang.
type leaderCycle struct {
	*rig
	pre      fwk.PreFilterPlugin
	post     fwk.PostFilterPlugin
	nodes    []fwk.NodeInfo
	statuses *framework.NodeToStatus
}

func (r *rig) leader() *leaderCycle {
	pre, ok := r.plugin.(fwk.PreFilterPlugin)
	if !ok {
		r.tb.Fatalf("%T is no PreFilter plugin", r.plugin)
	}
	nodes, err := r.framework(ours).SnapshotSharedLister().NodeInfos().List()
	r.must(err)
	return &leaderCycle{rig: r, pre: pre, post: r.postFilter(), nodes: nodes, statuses: framework.NewDefaultNodeToStatus()}
}

func (c *leaderCycle) plan(watch stopwatch) {
	state := framework.NewCycleState()
	watch.StartTimer()
	_, status := c.pre.PreFilter(c.ctx, state, c.pending[0], c.nodes)
	watch.StopTimer()
	c.needsRoom(status)
}

// carryOut runs PostFilter after a plan, and returns the order that PostFilter has sent to the
// evictor.
func (c *leaderCycle) carryOut(watch stopwatch) eviction.Order {
	ctx, over := context.WithCancel(c.ctx)
	state := framework.NewCycleState()
	watch.StartTimer()
	_, planned := c.pre.PreFilter(ctx, state, c.pending[0], c.nodes)
	_, status := c.post.PostFilter(ctx, state, c.pending[0], c.statuses)
	watch.StopTimer()
	over()
	c.needsRoom(planned)
	order := c.evictor.order
	c.preempted(status)
	return order
}

func (c *leaderCycle) needsRoom(status *fwk.Status) {
	if msg := status.Message(); status.Code() != fwk.Unschedulable || !strings.Contains(msg, " once ") || strings.Contains(msg, "leaving") {
		c.tb.Fatalf("The gang should fit once somebody has gone: %s: %s", status.Code(), msg)
	}
}

// preempted checks that a decision has victims. Then it reports to the scheduler that the eviction
// has failed, so that the next decision has the same cluster. Call it after the context of the
// scheduling cycle has ended.
func (r *rig) preempted(status *fwk.Status) {
	if !status.IsSuccess() {
		r.tb.Fatalf("PostFilter: %s", status.Message())
	}
	if r.evictor.outcomes == nil || r.evictor.order.Decision.Outcome != core.Preempts || len(r.evictor.order.Victims) == 0 {
		r.tb.Fatalf("Nobody was evicted: %s", r.evictor.order.Decision.Message)
	}
	// An unwanted order does not count as a failure of the scheduler. After several failures, the
	// scheduler would wait before it evicts again.
	r.evictor.outcomes <- eviction.Outcome{Err: errNobodyEvicts, Unwanted: true}
	r.shared.Wait()
	*r.evictor = evictor{}
}

// upstream returns a trial: upstream's DefaultPreemption in the named profile preempts for a single
// pod.
func (r *rig) upstream(name string) trial {
	fw, pod := r.framework(name), r.pending[0]
	plugin := defaultPreemptionOf(r.tb, fw)
	prepared := framework.NewCycleState()
	if _, status, _ := fw.RunPreFilterPlugins(r.ctx, prepared, pod); !status.IsSuccess() {
		r.tb.Fatal(status.AsError())
	}
	statuses := framework.NewDefaultNodeToStatus()
	infos, err := fw.SnapshotSharedLister().NodeInfos().List()
	r.must(err)
	for _, info := range infos {
		statuses.Set(info.Node().Name, fw.RunFilterPluginsWithNominatedPods(r.ctx, prepared, pod, info))
	}
	return func(watch stopwatch) {
		state := prepared.Clone()
		watch.StartTimer()
		result, status := plugin.PostFilter(r.ctx, state, pod, statuses)
		watch.StopTimer()
		if !status.IsSuccess() || result.NominatedNodeName == "" {
			r.tb.Fatalf("Upstream's PostFilter: %s", status.Message())
		}
		// The eviction runs in a goroutine. It makes no API calls, so it ends at once.
		for plugin.Executor.IsPodRunningPreemption(pod.UID) {
			goruntime.Gosched()
		}
	}
}

// defaultPreemptionOf returns upstream's plugin of a framework. It replaces the functions of the
// plugin that make API calls.
func defaultPreemptionOf(tb testing.TB, fw framework.Framework) *defaultpreemption.DefaultPreemption {
	tb.Helper()
	for _, pl := range fw.PreEnqueuePlugins() {
		if plugin, ok := pl.(*defaultpreemption.DefaultPreemption); ok {
			plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *corev1.Pod, string) (bool, error) {
				return false, nil
			}
			return plugin
		}
	}
	tb.Fatal("The profile lacks DefaultPreemption")
	return nil
}

// onlyCore returns a trial: the core decides without the plugin. The columns of the core are up to
// date.
func onlyCore(tb testing.TB, s shape) trial {
	tb.Helper()
	c, err := s.cluster()
	if err != nil {
		tb.Fatal(err)
	}
	return decides(tb, c, s.preemptor(), s.oracle())
}

// decides returns a trial of the core. The test fails if the decision has no victims.
func decides(tb testing.TB, c *core.Cluster, p *core.Preemptor, o core.Oracle) trial {
	tb.Helper()
	return func(watch stopwatch) {
		watch.StartTimer()
		d, err := core.Decide(c.Snapshot(), p, o)
		watch.StopTimer()
		if err != nil {
			tb.Fatal(err)
		}
		if d.Outcome != core.Preempts || victimsOf(&d) == 0 {
			tb.Fatalf("%s: %s", d.Outcome, d.Message)
		}
	}
}
