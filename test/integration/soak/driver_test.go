package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/soak/invariants"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// beat is the interval between two actions of an actor.
	beat = 200 * time.Millisecond
	// callTimeout is the timeout of each API call of an actor.
	callTimeout = 5 * time.Second
	// recreateAfter is the delay before the missing pods of a job are created. It starts with the
	// last change of the job's pods.
	recreateAfter = 2 * time.Second
	// jobLabel is a pod label. Its value is the name of the pod's job.
	jobLabel = "soak.reprieve.dev/job"
)

// job is a gang or a single pod. Its pods are replaced until the driver deletes the job.
type job struct {
	name, class, queue string
	members, minCount  int
	cpus, grace        int64
	gang, whole        bool
	// made is the number of pods that have been created for the job. changed is the time of the
	// last change.
	made    int
	changed time.Time
}

// phase determines which actions the driver performs.
type phase int

const (
	// In this phase, the driver only completes deletions.
	still phase = iota
	// In this phase, the driver also creates the missing pods of jobs.
	settling
	// In this phase, the driver also creates and deletes jobs, and deletes nodes.
	working
)

// driver is an actor that creates and deletes work. Only its method run makes API calls.
type driver struct {
	*stage.Stage
	actor

	observer *observer
	random   *rand.Rand

	phase phase
	jobs  map[string]*job
	// ending has the deleted jobs whose objects may still exist.
	ending map[string]*job
	// lost maps the name of a deleted node to the time when it is replaced.
	lost map[string]time.Time
	// names is the number of jobs so far, and hosts the number of nodes. They are used for unique
	// names.
	names, hosts int
}

func newDriver(s *stage.Stage, o *observer, random *rand.Rand) *driver {
	return &driver{
		Stage: s, observer: o, random: random,
		jobs: make(map[string]*job), ending: make(map[string]*job), lost: make(map[string]time.Time),
	}
}

func (d *driver) turnTo(p phase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase = p
}

// unsettled describes incomplete actions of the driver, or returns "" if there are none. Missing
// pods of a job are incomplete, because other members of a gang may wait on their nodes for them.
func (d *driver) unsettled() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	pods, lacking := d.pods(), 0
	for name, j := range d.jobs {
		lacking += max(0, j.members-living(pods[name]))
	}
	if len(d.ending)+len(d.lost)+lacking > 0 {
		return fmt.Sprintf("%d jobs end, %d nodes are to be replaced, and %d pods to come back", len(d.ending), len(d.lost), lacking)
	}
	return ""
}

// run performs actions until ctx is done.
func (d *driver) run(ctx context.Context) { d.repeat(ctx, d.Stage, "driver", d.step) }

func (d *driver) step(ctx context.Context) error {
	pods := d.pods()
	for _, name := range slices.Sorted(maps.Keys(d.ending)) {
		if err := d.finish(ctx, d.ending[name], pods[name]); err != nil {
			return err
		}
	}
	if err := d.replaceNodes(ctx); err != nil || d.phase == still {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.jobs)) {
		if err := d.complete(ctx, d.jobs[name], pods[name]); err != nil {
			return err
		}
	}
	if d.phase == settling {
		return nil
	}
	return d.happen(ctx, pods)
}

// pods returns the existing pods by the name of their job.
func (d *driver) pods() map[string][]*corev1.Pod {
	out := make(map[string][]*corev1.Pod)
	d.observer.with(func(c *invariants.Checker) {
		for pod := range c.Pods {
			if name := pod.Labels[jobLabel]; name != "" && pod.Namespace == d.Namespace {
				out[name] = append(out[name], pod)
			}
		}
	})
	for _, pods := range out {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmpNames(a.Name, b.Name) })
	}
	return out
}

func cmpNames(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// happen performs a random action, or no action.
func (d *driver) happen(ctx context.Context, pods map[string][]*corev1.Pod) error {
	switch dice := d.random.IntN(100); {
	case dice < 50:
		if d.demand() < int64(nodeCount*nodeCPUs)*14/10 {
			return d.arrive(ctx)
		}
		d.leave()
	case dice < 62:
		d.leave()
	case dice < 72:
		return d.loseMember(ctx, pods)
	case dice < 80:
		return d.cordon(ctx)
	case dice < 82:
		return d.loseNode(ctx)
	}
	return nil
}

// demand returns the sum of the CPU requests of all jobs.
func (d *driver) demand() int64 {
	sum := int64(0)
	for _, j := range d.jobs {
		sum += int64(j.members) * j.cpus
	}
	return sum
}

// arrive creates a random job.
func (d *driver) arrive(ctx context.Context) error {
	d.names++
	j := &job{
		name: "j" + strconv.Itoa(d.names), class: pickOf(d.random, classNames()), members: 1, grace: 1 + d.random.Int64N(3),
		cpus: 1 + d.random.Int64N(4),
	}
	if d.random.IntN(2) == 0 {
		j.queue = pickOf(d.random, []string{"a", "b", "c"})
	}
	if d.random.IntN(2) == 0 {
		j.gang, j.members = true, 2+d.random.IntN(5)
		j.minCount = j.members
		if j.whole = d.random.IntN(5) < 3; !j.whole && d.random.IntN(2) == 0 {
			j.minCount--
		}
	}
	d.jobs[j.name] = j
	if j.gang {
		if err := d.Objects.Create(ctx, j.groupIn(d.Namespace)); err != nil {
			d.end(j)
			return fmt.Errorf("create PodGroup %s: %w", j.name, err)
		}
	}
	return d.complete(ctx, j, nil)
}

func pickOf[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

func (j *job) groupIn(namespace string) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: j.name}}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(j.minCount)}}
	pg.Spec.PriorityClassName = &j.class
	if j.whole {
		pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
	}
	if j.queue != "" {
		pg.Spec.QueueName = &j.queue
	}
	return pg
}

// complete creates the missing pods of a job, all at once, like a controller.
func (d *driver) complete(ctx context.Context, j *job, pods []*corev1.Pod) error {
	lacking := j.members - living(pods)
	if lacking <= 0 || time.Since(j.changed) < recreateAfter {
		return nil
	}
	for range lacking {
		j.made++
		j.changed = time.Now()
		if err := d.Objects.Create(ctx, j.podIn(d.Namespace)); err != nil {
			return fmt.Errorf("create a pod of %s: %w", j.name, err)
		}
	}
	return nil
}

// living returns the number of pods that are not terminating.
func living(pods []*corev1.Pod) int {
	count := 0
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			count++
		}
	}
	return count
}

func (j *job) podIn(namespace string) *corev1.Pod {
	pod := stage.NewPod(namespace, fmt.Sprintf("%s-%d", j.name, j.made), j.class, j.cpus)
	// The grace period must not be 0. A deletion without a grace period has two steps. If the API
	// server is killed between them, the pod stays forever.
	pod.Spec.TerminationGracePeriodSeconds = &j.grace
	pod.Labels[jobLabel] = j.name
	if j.gang {
		pod.Labels[v1alpha1.LabelPodGroup] = j.name
	} else if j.queue != "" {
		pod.Labels[v1alpha1.LabelQueue] = j.queue
	}
	return pod
}

// leave deletes a random job.
func (d *driver) leave() {
	if names := slices.Sorted(maps.Keys(d.jobs)); len(names) > 0 {
		d.end(d.jobs[pickOf(d.random, names)])
	}
}

func (d *driver) end(j *job) {
	delete(d.jobs, j.name)
	d.ending[j.name] = j
}

// overdueAfter is the time from the end of a terminating pod's grace period until the driver
// deletes the pod itself. The driver does this because the simulated kubelets may miss a pod when
// etcd restarts. On a real cluster, the pod garbage collector deletes such pods.
const overdueAfter = 10 * time.Second

// finish deletes the objects of a deleted job: first its pods, and then its PodGroup.
func (d *driver) finish(ctx context.Context, j *job, pods []*corev1.Pod) error {
	for _, pod := range pods {
		var err error
		switch {
		case pod.DeletionTimestamp == nil:
			err = d.deletePod(ctx, pod, nil)
		case time.Since(pod.DeletionTimestamp.Time) > overdueAfter:
			err = d.deletePod(ctx, pod, ptr.To[int64](0))
		}
		if err != nil {
			return err
		}
	}
	if len(pods) > 0 || time.Since(j.changed) < recreateAfter {
		return nil
	}
	if j.gang {
		if err := client.IgnoreNotFound(d.Objects.Delete(ctx, j.groupIn(d.Namespace))); err != nil {
			return fmt.Errorf("delete PodGroup %s: %w", j.name, err)
		}
	}
	delete(d.ending, j.name)
	return nil
}

// deletePod deletes a pod. If grace is nil, the grace period of the pod applies. Otherwise grace is
// the grace period in seconds.
func (d *driver) deletePod(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	d.observer.with(func(c *invariants.Checker) { c.Release(pod.UID) })
	err := d.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}

// loseMember deletes a random pod of a job. The driver replaces it later.
func (d *driver) loseMember(ctx context.Context, pods map[string][]*corev1.Pod) error {
	names := slices.Sorted(maps.Keys(d.jobs))
	if len(names) == 0 {
		return nil
	}
	j := d.jobs[pickOf(d.random, names)]
	of := pods[j.name]
	if len(of) == 0 {
		return nil
	}
	j.changed = time.Now()
	return d.deletePod(ctx, of[d.random.IntN(len(of))], nil)
}

// cordon cordons a random node, or uncordons it if it is cordoned.
func (d *driver) cordon(ctx context.Context) error {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	closed := slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return !n.Spec.Unschedulable })
	open := slices.DeleteFunc(nodes, func(n corev1.Node) bool { return n.Spec.Unschedulable })
	from, to := open, true
	if len(closed) >= 2 || len(closed) > 0 && d.random.IntN(2) == 0 || len(open) == 0 {
		from, to = closed, false
	}
	if len(from) == 0 {
		return nil
	}
	name := from[d.random.IntN(len(from))].Name
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, to)
	if _, err := d.Kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("cordon %s: %w", name, err)
	}
	return nil
}

func (d *driver) nodes(ctx context.Context) ([]corev1.Node, error) {
	// Select only the driver's own nodes, without the nodes of the hostile tenant.
	list, err := d.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: stage.OwnerLabel + "=" + d.Namespace})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// loseNode deletes a random node, unless a node is missing. The driver replaces the node some
// seconds later.
func (d *driver) loseNode(ctx context.Context) error {
	if len(d.lost) > 0 {
		return nil
	}
	nodes, err := d.nodes(ctx)
	if err != nil || len(nodes) == 0 {
		return err
	}
	name := nodes[d.random.IntN(len(nodes))].Name
	if err := d.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	d.lost[name] = time.Now().Add(time.Duration(3+d.random.IntN(8)) * time.Second)
	return nil
}

// replaceNodes deletes the pods of deleted nodes, like the pod garbage collector, and creates new
// nodes.
func (d *driver) replaceNodes(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(d.lost)) {
		var left []*corev1.Pod
		d.observer.with(func(c *invariants.Checker) {
			for pod := range c.Pods {
				if pod.Spec.NodeName == name {
					left = append(left, pod)
				}
			}
		})
		for _, pod := range left {
			if err := d.deletePod(ctx, pod, ptr.To[int64](0)); err != nil {
				return err
			}
		}
		if len(left) > 0 || time.Now().Before(d.lost[name]) {
			continue
		}
		if err := d.addNode(ctx); err != nil {
			return err
		}
		delete(d.lost, name)
	}
	return nil
}

func (d *driver) addNode(ctx context.Context) error {
	node := stage.NewNode(d.Namespace, strconv.Itoa(d.hosts+1), nodeCPUs)
	if err := d.Objects.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node %s: %w", node.Name, err)
	}
	d.hosts++
	return nil
}
