package whatif_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// clusters is the number of clusters that TestPlanIsWhatIsDone generates.
const clusters = 300

// TestPlanIsWhatIsDone compares plans with the actions of a running scheduler, on generated
// clusters. The scheduler must evict the planned victims and bind the pods to the planned nodes. If
// the plan finds no room, the scheduler must evict nothing.
func TestPlanIsWhatIsDone(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	outcomes := make(map[core.Outcome]int)
	// The cleanup runs after the subtests of all clusters.
	t.Cleanup(func() {
		t.Logf("outcomes: %v", outcomes)
		for _, o := range []core.Outcome{core.Fits, core.Preempts, core.Infeasible, whatif.Held} {
			if !t.Failed() && outcomes[o] < clusters/50 {
				t.Errorf("%d of %d clusters have the outcome %s: too few to tell anything", outcomes[o], clusters, o)
			}
		}
	})
	for seed := range clusters {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			outcome := compare(t, uint64(seed))
			mu.Lock()
			defer mu.Unlock()
			outcomes[outcome]++
		})
	}
}

// compare plans the work in a generated cluster, runs a scheduler in that cluster, and compares the
// results. It returns the planned outcome.
func compare(t *testing.T, seed uint64) core.Outcome {
	t.Helper()
	s, w := generated(seed, time.Now())
	results, err := whatif.Plan(t.Context(), s.inventory(t), configuration(t), []manifest.Workload{w}, nil)
	if err != nil {
		t.Fatal(err)
	}
	step := &results[0].Steps[0]
	a := act(t, s, w.Pods)
	planned := make(map[string][]string)
	for _, place := range step.Placements {
		planned[place.Pod] = append([]string{place.Node}, place.OrLike...)
	}
	var victims, left []string
	for _, v := range step.Victims {
		for _, pod := range v.Pods {
			victims = append(victims, pod.Name)
			left = append(left, pod.Node)
		}
	}
	slices.Sort(victims)
	nodes := a.await(len(planned))
	if got := a.victims(); !slices.Equal(got, victims) {
		t.Errorf("The scheduler takes %v; planned were %v (%s: %s)", got, victims, step.Outcome, step.Message)
	}
	// If pods are evicted because of the limit of a queue, other nodes may have room already. After
	// the eviction, these nodes may be as good as the planned node.
	anyNode := len(victims) > 0 && slices.ContainsFunc(s.queues, func(q *v1alpha1.Queue) bool { return len(q.Spec.Limit) > 0 })
	// Members of the gang are identical, so the scheduler may exchange their nodes: it places the
	// leader first.
	var places []string
	for _, place := range step.Placements {
		places = append(places, place.Node)
	}
	slices.Sort(places)
	anyNode = anyNode || len(step.Pods) > 1 && slices.Equal(slices.Sorted(maps.Values(nodes)), places)
	for pod, node := range nodes {
		// The victims are deleted one after the other. The pod may be bound to another node as soon
		// as the deleted pods have left enough room there.
		if !anyNode && !slices.Contains(planned[pod], node) && !slices.Contains(left, node) {
			t.Errorf("The scheduler puts %s on %s; planned were %v (%s: %s)", pod, node, planned[pod], step.Outcome, step.Message)
		}
	}
	if len(nodes) != len(planned) {
		t.Errorf("The scheduler puts %d pods on nodes, %v; planned were %v (%s: %s)", len(nodes), nodes, planned, step.Outcome, step.Message)
	}
	return step.Outcome
}

// generated returns a random cluster, and work to place in it. The cluster is almost full. Its pods
// and gangs have several priorities, and some are in queues.
func generated(seed uint64, now time.Time) (*scene, manifest.Workload) {
	r := rand.New(rand.NewPCG(seed, 1))
	s := newScene(now)
	free := make([]int64, 2+r.IntN(5))
	for i := range free {
		free[i] = 2 << r.IntN(3)
		s.node(fmt.Sprintf("node-%d", i), free[i])
		if r.IntN(8) == 0 {
			s.nodes[i].Spec.Taints = []corev1.Taint{{Key: "example.com/broken", Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	var queues []string
	if r.IntN(3) == 0 {
		for i := range 2 {
			name := fmt.Sprintf("queue-%d", i)
			q := s.queue(name, int64(r.IntN(12)))
			if r.IntN(3) == 0 {
				q.Spec.Limit = corev1.ResourceList{gpu: *resource.NewQuantity(q.Spec.Quota.Name(gpu, resource.DecimalSI).Value()+int64(r.IntN(6)), resource.DecimalSI)}
			}
			if r.IntN(3) == 0 {
				q.Spec.ReclaimMinRuntime = &metav1.Duration{Duration: time.Duration(1+r.IntN(6)) * time.Hour}
			}
			queues = append(queues, name)
		}
	}
	queue := func() string {
		if len(queues) == 0 {
			return ""
		}
		return queues[r.IntN(len(queues))]
	}
	hours := func() time.Duration { return time.Duration(30+60*r.IntN(8)) * time.Minute }
	for i := range 3 + r.IntN(12) {
		priority := int32(100 * r.IntN(4))
		count, group, of := 1, "", queue()
		if r.IntN(3) == 0 {
			count, group = 2+r.IntN(3), fmt.Sprintf("group-%d", i)
			mode := v1alpha1.DisruptionModePod
			if r.IntN(2) == 0 {
				mode = v1alpha1.DisruptionModePodGroup
			}
			pg := s.group(group, int32(1+r.IntN(count)), priority, mode, of)
			start := metav1.NewTime(now.Add(-hours()).Truncate(time.Second))
			pg.Status.StartTime = &start
			if i%4 == 3 {
				pg.Spec.PreemptionPriorityClassName = ptr.To("high")
			}
		}
		gpus, since := int64(1+r.IntN(3)), hours()
		for j := range count {
			at := r.IntN(len(free))
			if free[at] < gpus {
				continue
			}
			free[at] -= gpus
			p := s.running(fmt.Sprintf("pod-%d-%d", i, j), group, fmt.Sprintf("node-%d", at), gpus, priority, since)
			if group == "" && of != "" {
				p.Labels[v1alpha1.LabelQueue] = of
			}
			if group == "" && priority == 100 && r.IntN(2) == 0 {
				p.Spec.PriorityClassName = "tolerant"
			}
			if group == "" && r.IntN(5) == 0 {
				s.budget(p.Name, 0)
			}
		}
	}
	return s, work(s, r, queue())
}

// work returns random work to place: a pod or a gang.
func work(s *scene, r *rand.Rand, queue string) manifest.Workload {
	priority, gpus := int32(100*r.IntN(5)), int64(1+r.IntN(4))
	if r.IntN(2) == 0 {
		pod := s.pending("new", "", gpus, priority)
		if queue != "" {
			pod.Labels[v1alpha1.LabelQueue] = queue
		}
		return manifest.Workload{Kind: "Pod", Namespace: "ns", Name: "new", Pods: []*corev1.Pod{pod}}
	}
	count := 2 + r.IntN(4)
	// In some cases, the gang has too few members.
	s.group("new", int32(max(count-r.IntN(3)+r.IntN(2), 1)), priority, v1alpha1.DisruptionModePod, queue)
	return manifest.Workload{Kind: "PodGroup", Namespace: "ns", Name: "new", Gang: true, Pods: members(s, "new", count, gpus, priority)}
}

// acting is a running scheduler with a fake client.
type acting struct {
	t      *testing.T
	client *fake.Clientset
	pods   []*corev1.Pod

	mu    sync.Mutex
	taken []string
}

// act runs a scheduler in the cluster of a scene, with further pods, until the test ends.
func act(t *testing.T, s *scene, pods []*corev1.Pod) *acting {
	t.Helper()
	return actWith(t, s, pods, scheduler.Inputs{}, func(*scheduler.Scheduler, informers.SharedInformerFactory) {})
}

// actWith works like act, with inputs for the plugins and a function to call before the scheduler
// runs.
func actWith(t *testing.T, s *scene, pods []*corev1.Pod, in scheduler.Inputs, before func(*scheduler.Scheduler, informers.SharedInformerFactory)) *acting {
	t.Helper()
	a := &acting{t: t, client: fake.NewClientset(s.objects(pods...)...), pods: pods}
	finished := func(selector fields.Selector) bool {
		return selector != nil && strings.Contains(selector.String(), "status.phase!=Pending")
	}
	a.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, ok := action.(clienttesting.ListAction)
		return ok && finished(list.GetListRestrictions().Fields), &corev1.PodList{}, nil
	})
	a.client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, ok := action.(clienttesting.WatchAction)
		return ok && finished(w.GetWatchRestrictions().Fields), watch.NewFake(), nil
	})
	a.client.PrependReactor("create", "pods", a.bind)
	groups := &gang.Store{}
	for _, pg := range s.groups {
		groups.Set(gang.FromPodGroup(pg))
	}
	in.Groups, in.Engine, in.Evictor = groups, engine.New(nil), a
	plugins := scheduler.NewPlugins(in)
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(a.client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: a.client.EventsV1()})
	cfg := configuration(t)
	scheduler.AddGate(cfg.Profiles)
	sched, err := kubescheduler.New(ctx, a.client, factory, nil, profile.NewRecorderFactory(broadcaster),
		kubescheduler.WithProfiles(cfg.Profiles...), kubescheduler.WithFrameworkOutOfTreeRegistry(plugins.Registry()))
	if err != nil {
		t.Fatal(err)
	}
	sched.FailureHandler = plugins.AfterFailures(sched.FailureHandler)
	for _, q := range s.queues {
		plugins.Scheduler().QueueSet(q)
	}
	for _, pg := range s.groups {
		plugins.Scheduler().GroupChanged(types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name})
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	plugins.Scheduler().WaitForSync(ctx)
	before(plugins.Scheduler(), factory)
	plugins.Scheduler().Lead()
	var running sync.WaitGroup
	running.Go(func() { sched.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		broadcaster.Shutdown()
		factory.Shutdown()
	})
	return a
}

// Evict implements eviction.Executor. It deletes the victims at once.
func (a *acting) Evict(_ context.Context, order eviction.Order, _ eviction.Scheduler) <-chan eviction.Outcome {
	outcome := make(chan eviction.Outcome, 1)
	go func() {
		for _, victim := range order.Victims {
			a.mu.Lock()
			a.taken = append(a.taken, victim.Name)
			a.mu.Unlock()
			if err := a.client.CoreV1().Pods(victim.Namespace).Delete(context.Background(), victim.Name, metav1.DeleteOptions{}); err != nil {
				a.t.Errorf("delete %s: %v", victim.Name, err)
			}
		}
		outcome <- eviction.Outcome{}
	}()
	return outcome
}

// Nominate does nothing, because the reservations of the scheduler are enough.
func (*acting) Nominate(context.Context, []podstatus.Nomination) {}

// bind handles a call that binds a pod, like an API server.
func (a *acting) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding, ok := create.GetObject().(*corev1.Binding)
	if !ok {
		return false, nil, nil
	}
	pods, gvr := a.client.Tracker(), corev1.SchemeGroupVersion.WithResource("pods")
	object, err := pods.Get(gvr, binding.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return true, nil, fmt.Errorf("%T is no pod", object)
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	return true, binding, pods.Update(gvr, pod, binding.Namespace)
}

// await waits until as many pods are bound as planned, and returns the node of each pod. If no pod
// is planned to be bound, it waits until the scheduler reports a pod as unschedulable, or until
// gated returns true.
func (a *acting) await(planned int) map[string]string {
	a.t.Helper()
	var bound map[string]string
	err := wait.PollUntilContextTimeout(a.t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		bound = make(map[string]string)
		refused := 0
		for _, pod := range a.pods {
			now, err := a.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if now.Spec.NodeName != "" {
				bound[pod.Name] = now.Spec.NodeName
				continue
			}
			if slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
			}) {
				refused++
			}
		}
		// Gated members get no condition.
		return len(bound) == planned && (planned > 0 || refused > 0 || a.gated(ctx)), nil
	})
	if err != nil {
		a.t.Errorf("%d pods are bound, %v, and %d planned: %v", len(bound), bound, planned, err)
	}
	return bound
}

// gated waits for a short time. It returns true if no pod was evicted in that time.
func (a *acting) gated(ctx context.Context) bool {
	for range 20 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if len(a.victims()) > 0 {
			return false
		}
	}
	return true
}

func (a *acting) victims() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Clone(a.taken)
	slices.Sort(out)
	return out
}
