package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
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
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// The helpers of this file build one cluster in two forms: for the simulation, and as API objects
// for kube-scheduler's own preemption ("upstream").

// situation is a small cluster and a preemptor, which may find no room.
type situation struct {
	*simulation
	preemptor *job
}

const upstreamProfile = "upstream"

// dimensions returns the resources of the clusters.
func dimensions() []string { return []string{"cpu", "memory", "example.com/gpu", "pods"} }

// someRequest returns a random request of a pod for 1 to cpus CPUs and other resources.
func someRequest(t *rapid.T, what string, cpus int64) core.Amounts {
	return core.Amounts{
		1000 * rapid.Int64Range(1, cpus).Draw(t, what+" cpu"), max(0, rapid.Int64Range(-4, 4).Draw(t, what+" memory")) << 30,
		max(0, rapid.Int64Range(-4, 1).Draw(t, what+" gpu")), 1,
	}
}

// somePriority returns a random priority from a short list, so that many priorities are equal.
func somePriority(t *rapid.T, what string, of ...int32) int32 {
	return rapid.SampledFrom(of).Draw(t, what+" priority")
}

// someSituation returns a random situation. Nodes have several sizes, pods have several priorities,
// and some pods terminate. Some pending pods have reservations, and the preemptor may have one too.
func someSituation(t *rapid.T) *situation {
	in := &Input{Start: midnight(), Resources: dimensions(), GPU: 2, PerGPU: 1}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		what := fmt.Sprintf("node %d", i)
		in.Nodes = append(in.Nodes, Node{Name: fmt.Sprintf("node-%d", i), Allocatable: core.Amounts{
			1000 * rapid.Int64Range(3, 6).Draw(t, what+" cpu"), rapid.Int64Range(3, 12).Draw(t, what+" memory") << 30,
			rapid.Int64Range(0, 3).Draw(t, what+" gpu"), rapid.Int64Range(3, 8).Draw(t, what+" pods"),
		}})
	}
	work := func(name string, cpus int64, priorities ...int32) Work {
		return Work{
			Namespace: "ns", Name: name, MinCount: 1, Runs: time.Hour, Requests: []core.Amounts{someRequest(t, name, cpus)},
			Priority: somePriority(t, name, priorities...),
		}
	}
	s := newSimulation(in, Policy{Rule: KubeScheduler}, Options{Seed: rapid.Uint64().Draw(t, "seed")}, &watch{})
	count := 0
	for _, n := range s.nodes {
		free := slices.Clone(n.allocatable)
		for range rapid.IntRange(2, 8).Draw(t, n.name+" runs") {
			w := work(fmt.Sprintf("run-%d", count), 2, -10, 0, 0, 0, 0, 10, 10, 20)
			if !fitsIn(w.Requests[0], free) {
				continue
			}
			add(free, w.Requests[0], -1)
			count++
			// All starts are different. If pods had equal starts, or nodes had equal costs,
			// upstream could choose any of them.
			w.On = []string{n.name}
			w.Ran = time.Duration(rapid.IntRange(0, 3).Draw(t, w.Name+" ran"))*time.Hour + time.Duration(count)*time.Second
			j := s.jobsOf(&w)[0]
			s.atStart(j, w.On, w.Ran)
			j.pods[0].terminating = rapid.IntRange(0, 4).Draw(t, w.Name+" leaves") == 0
		}
	}
	nominate := func(j *job) {
		if large := largeEnough(s.nodes, j); len(large) > 0 {
			s.promise(j, []reservation{{j.pods[0], rapid.SampledFrom(large).Draw(t, j.name+" is promised")}})
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "nominated") {
		w := work(fmt.Sprintf("nominated-%d", i), 2, 0, 20, 30)
		j := s.jobsOf(&w)[0]
		s.arrive(j)
		nominate(j)
	}
	w := work("preemptor", 4, 0, 10, 20, 20, 30, 30)
	w.Never = rapid.IntRange(0, 9).Draw(t, "never") == 0
	j := s.jobsOf(&w)[0]
	s.arrive(j)
	if !w.Never && rapid.IntRange(0, 3).Draw(t, "preempts again") == 0 {
		nominate(j)
	}
	return &situation{s, j}
}

// reserved returns the room on each node that the preemptor cannot use because it is reserved for
// other pods.
func (s *situation) reserved() map[string]core.Amounts { return reservedOn(s.promises(s.preemptor)) }

// quantities converts amounts to a ResourceList.
func quantities(a core.Amounts) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, name := range dimensions() {
		if a[i] == 0 {
			continue
		}
		if name == "cpu" {
			out[corev1.ResourceName(name)] = *resource.NewMilliQuantity(a[i], resource.DecimalSI)
		} else {
			out[corev1.ResourceName(name)] = *resource.NewQuantity(a[i], resource.DecimalSI)
		}
	}
	return out
}

// apiPod converts a pod of the simulation to an API object.
func apiPod(p *pod) *corev1.Pod {
	requests := quantities(p.request)
	delete(requests, corev1.ResourcePods)
	j := p.job
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: p.uid, UID: types.UID(p.uid)},
		Spec: corev1.PodSpec{
			SchedulerName: upstreamProfile, Priority: &j.priority,
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests}}},
		},
	}
	if j.never {
		never := corev1.PreemptNever
		out.Spec.PreemptionPolicy = &never
	}
	if p.node != nil {
		out.Spec.NodeName = p.node.name
		out.Status.StartTime = &metav1.Time{Time: j.began}
	} else if len(j.promises) > 0 {
		out.Status.NominatedNodeName = j.promises[0].node.name
	}
	if p.leaving() {
		out.DeletionTimestamp = &metav1.Time{Time: midnight()}
		out.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		}}
	}
	return out
}

// upstream is the plugin DefaultPreemption in a scheduling framework.
type upstream struct {
	client    *fake.Clientset
	framework framework.Framework
	plugin    *defaultpreemption.DefaultPreemption
	pod       *corev1.Pod
	nodes     []fwk.NodeInfo
}

func newUpstream(ctx context.Context, t *rapid.T, s *situation) *upstream {
	var objects []runtime.Object
	var nodes []*corev1.Node
	var running, nominated []*corev1.Pod
	for _, n := range s.nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Status: corev1.NodeStatus{Allocatable: quantities(n.allocatable)}}
		nodes, objects = append(nodes, node), append(objects, node)
		for _, p := range n.pods {
			running = append(running, apiPod(p))
			objects = append(objects, running[len(running)-1])
		}
	}
	u := &upstream{pod: apiPod(s.preemptor.pods[0])}
	for _, j := range s.promised {
		if pod := apiPod(j.pods[0]); j != s.preemptor {
			nominated, objects = append(nominated, pod), append(objects, pod)
		}
	}
	objects = append(objects, u.pod)
	u.client = fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(u.client, 0)
	snapshot := internalcache.NewSnapshot(running, nodes)
	queue := internalqueue.NewTestQueueWithObjects(ctx, (&queuesort.PrioritySort{}).Less, objects)
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	fit := config.PluginSet{Enabled: []config.Plugin{{Name: names.NodeResourcesFit}}}
	profile := &config.KubeSchedulerProfile{
		SchedulerName: upstreamProfile, PluginConfig: defaults.Profiles[0].PluginConfig, Plugins: &config.Plugins{
			QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}}, PreFilter: fit, Filter: fit,
			Bind: config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
		},
	}
	u.framework, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(u.client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithParallelism(1),
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithPodNominator(queue), frameworkruntime.WithPodActivator(queue),
		frameworkruntime.WithEventRecorder(silent{}), frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range profile.PluginConfig {
		if of.Name == defaultpreemption.Name {
			u.plugin, err = defaultpreemption.New(ctx, of.Args, u.framework, feature.Features{})
		}
	}
	if err != nil || u.plugin == nil {
		t.Fatalf("make the plugin: %v", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	// Add the nominated pods to the queue. Otherwise, the framework would know only their names.
	for _, pod := range nominated {
		queue.Add(ctx, pod)
	}
	if u.nodes, err = u.framework.SnapshotSharedLister().NodeInfos().List(); err != nil {
		t.Fatal(err)
	}
	u.client.ClearActions()
	return u
}

// filter runs the filters on all nodes, as a scheduling cycle does. fits is true if the pod fits on
// any node.
func (u *upstream) filter(ctx context.Context, t *rapid.T) (state fwk.CycleState, statuses *framework.NodeToStatus, fits bool) {
	state = framework.NewCycleState()
	if _, status, _ := u.framework.RunPreFilterPlugins(ctx, state, u.pod); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	statuses = framework.NewDefaultNodeToStatus()
	for _, info := range u.nodes {
		status := u.framework.RunFilterPluginsWithNominatedPods(ctx, state, u.pod, info)
		fits = fits || status.IsSuccess()
		statuses.Set(info.Node().Name, status)
	}
	return state, statuses, fits
}

// inWords returns the nodes and their victims as text.
func inWords(nodes []string, victims func(node string) []string) string {
	slices.Sort(nodes)
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n + ": " + strings.Join(victims(n), " ")
	}
	return strings.Join(out, "; ")
}

// dryRun returns the victims that upstream finds on each node, as text. The search begins at the
// node with the index offset. It ends when the number of candidates is enough.
func (u *upstream) dryRun(ctx context.Context, t *rapid.T, state fwk.CycleState, statuses *framework.NodeToStatus, offset, enough int) string {
	potential, err := statuses.NodesForStatusCode(u.framework.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		t.Fatal(err)
	}
	if len(potential) == 0 {
		return ""
	}
	slices.SortFunc(potential, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	found, _, err := u.plugin.Evaluator.DryRunPreemption(ctx, state, u.pod, potential, nil, int32(offset%len(potential)), int32(enough))
	if err != nil {
		t.Fatal(err)
	}
	victims := make(map[string][]string)
	var nodes []string
	for _, c := range found {
		nodes = append(nodes, c.Name())
		for _, pod := range c.Victims().Pods {
			victims[c.Name()] = append(victims[c.Name()], pod.Name)
		}
	}
	return inWords(nodes, func(node string) []string { return victims[node] })
}

// dryRun returns the victims that the model finds on each node, as text.
func (s *situation) dryRun(offset, enough int) string {
	potential := largeEnough(s.nodes, s.preemptor)
	if len(potential) == 0 {
		return ""
	}
	victims := make(map[string][]string)
	var nodes []string
	for _, c := range candidates(potential, s.preemptor, s.reserved(), offset%len(potential), enough) {
		nodes = append(nodes, c.node.name)
		for _, v := range c.victims {
			victims[c.node.name] = append(victims[c.node.name], v.uid)
		}
	}
	return inWords(nodes, func(node string) []string { return victims[node] })
}

// deleted returns the names of the pods that upstream has deleted.
func (u *upstream) deleted() []string {
	var out []string
	for _, action := range u.client.Actions() {
		if gone, ok := action.(clienttesting.DeleteAction); ok {
			out = append(out, gone.GetName())
		}
	}
	slices.Sort(out)
	return out
}

// silent is an event recorder that drops all events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func (s silent) WithLogger(klog.Logger) events.EventRecorderLogger { return s }

// TestModelOfKubeScheduler compares the model of kube-scheduler's preemption with the plugin's own
// code, in random situations. Both must find the same victims on each node. Both must then evict
// from the same node, or wait, or find no room.
func TestModelOfKubeScheduler(t *testing.T) {
	t.Parallel()
	metrics.Register()
	outcomes := make(map[core.Outcome]int)
	check := func(t *rapid.T) {
		ctx := klog.NewContext(t.Context(), logr.Discard())
		s := someSituation(t)
		u := newUpstream(ctx, t, s)
		j := s.preemptor
		d, err := s.decide(j, s.simulation.preemptor(j, j.pods), s.promises(j))
		if err != nil {
			t.Fatal(err)
		}
		outcomes[d.Outcome]++
		state, statuses, fits := u.filter(ctx, t)
		if fits || d.Outcome == core.Fits {
			if !fits || d.Outcome != core.Fits {
				t.Fatalf("it fits for upstream: %t; the model: %s", fits, d.Outcome)
			}
			return
		}
		offset, enough := rapid.IntRange(0, 7).Draw(t, "offset"), rapid.IntRange(1, 8).Draw(t, "enough")
		if mine, theirs := s.dryRun(offset, enough), u.dryRun(ctx, t, state, statuses, offset, enough); mine != theirs {
			t.Fatalf("victims by node:\n%s\nupstream's:\n%s", mine, theirs)
		}
		nodes := rapid.IntRange(1, 5000).Draw(t, "of so many nodes")
		if _, want := u.plugin.GetOffsetAndNumCandidates(int32(nodes)); enoughOf(nodes) != int(want) {
			t.Fatalf("of %d nodes, %d candidates are enough, and %d for upstream", nodes, enoughOf(nodes), want)
		}
		result, status := u.plugin.PostFilter(ctx, state, u.pod, statuses)
		if status.Code() != fwk.Success && status.Code() != fwk.Unschedulable {
			t.Fatal(status.AsError())
		}
		s.compare(t, &d, result, status.IsSuccess(), u.deleted())
	}
	// Each round of rapid.Check checks a hundred situations.
	for range 10 {
		rapid.Check(t, check)
	}
	t.Logf("outcomes: %v", outcomes)
	for _, o := range []core.Outcome{core.Fits, core.Preempts, core.Waits, core.Infeasible} {
		if !t.Failed() && outcomes[o] == 0 {
			t.Errorf("no case has the outcome %s", o)
		}
	}
}

// compare checks that a decision of the model equals upstream's result. found is false if upstream
// found no node.
func (s *situation) compare(t *rapid.T, d *core.Decision, result *fwk.PostFilterResult, found bool, deleted []string) {
	var told []string
	for i := range d.Victims {
		told = append(told, d.Victims[i].UID)
	}
	slices.Sort(told)
	switch {
	case !found && result == nil:
		// The pod keeps its nominated node, because it must not preempt, or must not preempt yet.
		if j := s.preemptor; !j.never && (d.Outcome != core.Waits || d.Placements[0].Node != j.promises[0].node.name) || j.never && d.Outcome != core.Infeasible {
			t.Fatalf("upstream waits; the model: %s on %v", d.Outcome, d.Placements)
		}
	case !found:
		if d.Outcome != core.Infeasible {
			t.Fatalf("upstream finds no way; the model: %s, taking %v", d.Outcome, told)
		}
	default:
		if d.Outcome != core.Preempts && d.Outcome != core.Waits {
			t.Fatalf("upstream takes %v on %s; the model: %s", deleted, result.NominatedNodeName, d.Outcome)
		}
		// All starts are different, so no two nodes have equal costs.
		if node := d.Placements[0].Node; node != result.NominatedNodeName || !slices.Equal(told, deleted) {
			t.Fatalf("the model takes %v on %s, and upstream %v on %s", told, node, deleted, result.NominatedNodeName)
		}
	}
}
