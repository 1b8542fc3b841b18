package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/soak/invariants"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// tenantNamespace is the namespace of the hostile tenant and of its neighbor. tenantNodes is
	// the number of nodes for the pods of this namespace.
	tenantNamespace = "tenant"
	tenantNodes     = 2
	// hostileQueue is the queue of the hostile tenant. It has no quota. neighborQueue is the queue
	// of the neighbor. Its quota suffices for mostProbes pods with probeCPUs CPUs each.
	hostileQueue, neighborQueue = "hostile", "neighbor"
	probeCPUs, mostProbes       = 4, 2
	probePrefix                 = "probe-"
	// probeEvery is the interval between two probes. probeRuns is the time that a probe runs.
	probeEvery, probeRuns = 3 * time.Second, 4 * time.Second
	// stuckFor is the time until the tenant kills a pod with a very long grace period, and until it
	// deletes a job in raised.
	stuckFor = 30 * time.Second
	// misfit is the name of a gang that fits on no node.
	misfit = "misfit"
)

// tenant is an actor for two users of one namespace: a hostile tenant with the role edit, and its
// neighbor. The neighbor creates single pods, called probes, in its own queue. The quota of this
// queue suffices for the probes. Only run makes API calls.
type tenant struct {
	*stage.Stage
	actor

	observer *observer
	random   *rand.Rand
	// edit is a client with the permissions of the tenant.
	edit client.Client

	active bool
	jobs   map[string]*job
	// raised has the jobs whose PodGroup the tenant has replaced by a better protected one. They
	// get no more members.
	raised map[string]bool
	// stuck maps the name of a pod with a very long grace period to the time when the tenant kills
	// it.
	stuck map[string]time.Time
	// names is the number of jobs so far, and probes the number of probes. probed is the time of
	// the last probe.
	names, probes int
	probed        time.Time
	// done maps the name of a deed to the number of times that the tenant has done it.
	done map[string]int
}

func newTenant(s *stage.Stage, o *observer, random *rand.Rand) *tenant {
	t := &tenant{
		Stage: s, observer: o, random: random, jobs: make(map[string]*job), raised: make(map[string]bool), stuck: make(map[string]time.Time),
		done: make(map[string]int),
	}
	const user = "hostile-tenant"
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}}, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reprieve-edit", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.SchemeGroupVersion.Group}, Resources: []string{"podgroups", "workloads"},
			Verbs: []string{"get", "list", "watch", "create", "delete", "deletecollection", "patch", "update"},
		}},
	}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "tenant"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	})
	config := rest.CopyConfig(s.Run.RESTConfig())
	config.QPS, config.Impersonate = -1, rest.ImpersonationConfig{UserName: user}
	var err error
	if t.edit, err = client.New(config, client.Options{Scheme: s.Objects.Scheme()}); err != nil {
		s.Fatal(err)
	}
	for i := range tenantNodes {
		s.Create(stage.NewNode(tenantNamespace, strconv.Itoa(i+1), nodeCPUs))
	}
	s.Eventually("the tenant may create pods", func(ctx context.Context) string {
		pod := stage.NewPod(tenantNamespace, "first", "low", 1)
		if err := t.edit.Create(ctx, pod, client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	})
	return t
}

// tenantQueues returns the Queues of the tenant and of the neighbor.
func tenantQueues() []*v1alpha1.Queue {
	cpus := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
	}
	hostile := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: hostileQueue}, Spec: v1alpha1.QueueSpec{
		Limit:             cpus(tenantNodes*nodeCPUs - 2),
		ReclaimMinRuntime: &metav1.Duration{Duration: 4 * time.Second}, PreemptMinRuntime: &metav1.Duration{Duration: 3 * time.Second},
	}}
	neighbor := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: neighborQueue}, Spec: v1alpha1.QueueSpec{Quota: cpus(mostProbes * probeCPUs)}}
	return []*v1alpha1.Queue{hostile, neighbor}
}

// act starts the work of the tenant and of the neighbor. rest ends it.
func (t *tenant) act() { t.turnTo(func() { t.active = true }) }

func (t *tenant) rest() { t.turnTo(func() { t.active = false }) }

func (t *tenant) turnTo(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// unsettled describes the remaining objects after a call of rest, or returns "" if there are none.
func (t *tenant) unsettled() string {
	pods, groups := t.left()
	if len(pods)+len(groups) > 0 {
		return fmt.Sprintf("%d pods and %d PodGroups of the hostile tenant are left", len(pods), len(groups))
	}
	return ""
}

// left returns the existing pods and PodGroups in the namespace.
func (t *tenant) left() (pods []*corev1.Pod, groups []*v1alpha1.PodGroup) {
	t.observer.with(func(c *invariants.Checker) {
		for pod := range c.Pods {
			if pod.Namespace == tenantNamespace {
				pods = append(pods, pod)
			}
		}
		for pg := range c.Groups {
			if pg.Namespace == tenantNamespace {
				groups = append(groups, pg)
			}
		}
	})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(groups, func(a, b *v1alpha1.PodGroup) int { return strings.Compare(a.Name, b.Name) })
	return pods, groups
}

// run performs steps until ctx is done. A step that fails, for example during a fault, is repeated
// later.
func (t *tenant) run(ctx context.Context) { t.repeat(ctx, t.Stage, "tenant", t.step) }

func (t *tenant) step(ctx context.Context) error {
	all, groups := t.left()
	if !t.active {
		return t.leave(ctx, all, groups)
	}
	pods := make(map[string][]*corev1.Pod)
	for _, pod := range all {
		pods[pod.Labels[jobLabel]] = append(pods[pod.Labels[jobLabel]], pod)
	}
	if err := t.probe(ctx, pods[""]); err != nil {
		return err
	}
	if err := t.keepUp(ctx, pods, groups); err != nil {
		return err
	}
	if t.random.IntN(2) == 0 {
		return nil
	}
	one := pickOf(t.random, deeds())
	done, err := one.do(t, ctx, pods)
	if err != nil {
		return fmt.Errorf("the tenant %s: %w", one.name, err)
	}
	if done {
		t.done[one.name]++
	}
	return nil
}

// leave deletes all pods and PodGroups in the namespace.
func (t *tenant) leave(ctx context.Context, pods []*corev1.Pod, groups []*v1alpha1.PodGroup) error {
	clear(t.jobs)
	clear(t.raised)
	clear(t.stuck)
	for _, pod := range pods {
		if err := t.deletePod(ctx, pod, 0); err != nil {
			return err
		}
	}
	if len(pods) > 0 {
		return nil
	}
	for _, pg := range groups {
		if err := client.IgnoreNotFound(t.edit.Delete(ctx, pg.DeepCopy())); err != nil {
			return err
		}
	}
	return nil
}

// deletePod deletes a pod. grace is the grace period in seconds.
func (t *tenant) deletePod(ctx context.Context, pod *corev1.Pod, grace int64) error {
	t.observer.with(func(c *invariants.Checker) { c.Release(pod.UID) })
	err := t.edit.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(grace), client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}

// probe creates the neighbor's probes, and deletes each probe after it has run for probeRuns.
func (t *tenant) probe(ctx context.Context, probes []*corev1.Pod) error {
	staying := 0
	for _, pod := range probes {
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Status.StartTime != nil && time.Since(pod.Status.StartTime.Time) > probeRuns:
			if err := t.deletePod(ctx, pod, 1); err != nil {
				return err
			}
		default:
			staying++
		}
	}
	if staying >= mostProbes || time.Since(t.probed) < probeEvery {
		return nil
	}
	t.probes++
	t.probed = time.Now()
	pod := stage.NewPod(tenantNamespace, probePrefix+strconv.Itoa(t.probes), "mid", probeCPUs)
	pod.Labels[v1alpha1.LabelQueue] = neighborQueue
	if err := t.edit.Create(ctx, pod); err != nil {
		return fmt.Errorf("create %s: %w", pod.Name, err)
	}
	return nil
}

// keepUp creates missing PodGroups, pods and jobs of the tenant, so that its nodes stay full. It
// deletes jobs and pods whose time is over.
func (t *tenant) keepUp(ctx context.Context, pods map[string][]*corev1.Pod, groups []*v1alpha1.PodGroup) error {
	demand := int64(0)
	for _, name := range slices.Sorted(maps.Keys(t.jobs)) {
		j := t.jobs[name]
		if name != misfit {
			demand += int64(j.members) * j.cpus
		}
		if t.raised[name] {
			if len(pods[name]) == 0 || time.Since(j.changed) > stuckFor {
				return t.end(ctx, j, pods[name])
			}
			continue
		}
		exists := slices.ContainsFunc(groups, func(pg *v1alpha1.PodGroup) bool { return pg.Name == name })
		if j.gang && !exists && time.Since(j.changed) > recreateAfter {
			j.changed = time.Now()
			if err := t.edit.Create(ctx, j.groupIn(tenantNamespace)); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create PodGroup %s: %w", name, err)
			}
		}
		if err := t.complete(ctx, j, pods[name]); err != nil {
			return err
		}
	}
	for _, pod := range slices.Concat(slices.Collect(maps.Values(pods))...) {
		if at, ok := t.stuck[pod.Name]; ok && time.Now().After(at) {
			return t.deletePod(ctx, pod, 0)
		}
	}
	if demand < tenantNodes*nodeCPUs*3/2 {
		t.arrive()
		return nil
	}
	if t.random.IntN(60) == 0 {
		names := slices.Sorted(maps.Keys(t.jobs))
		name := pickOf(t.random, names)
		return t.end(ctx, t.jobs[name], pods[name])
	}
	return nil
}

// arrive adds a job of the tenant. The first job is the gang misfit.
func (t *tenant) arrive() {
	if t.jobs[misfit] == nil {
		t.jobs[misfit] = &job{name: misfit, class: "low", queue: hostileQueue, gang: true, members: 6, minCount: 6, cpus: nodeCPUs + 1, grace: 1}
		return
	}
	t.names++
	j := &job{name: "h" + strconv.Itoa(t.names), class: "low", queue: hostileQueue, members: 1, grace: 1, cpus: 1 + t.random.Int64N(3)}
	if t.random.IntN(3) > 0 {
		j.gang, j.whole, j.members, j.cpus = true, t.random.IntN(2) == 0, 2+t.random.IntN(2), 1+t.random.Int64N(2)
		j.minCount = j.members
	}
	t.jobs[j.name] = j
}

// complete creates the missing pods of a job.
func (t *tenant) complete(ctx context.Context, j *job, pods []*corev1.Pod) error {
	lacking := j.members - living(pods)
	if lacking <= 0 || time.Since(j.changed) < recreateAfter {
		return nil
	}
	for range lacking {
		j.made++
		j.changed = time.Now()
		if err := t.edit.Create(ctx, j.podIn(tenantNamespace)); err != nil {
			return fmt.Errorf("create a pod of %s: %w", j.name, err)
		}
	}
	return nil
}

// end deletes a job: first its PodGroup, and then its pods. In this order, the pods run without a
// PodGroup for a moment.
func (t *tenant) end(ctx context.Context, j *job, pods []*corev1.Pod) error {
	if j.gang {
		if err := client.IgnoreNotFound(t.edit.Delete(ctx, j.groupIn(tenantNamespace))); err != nil {
			return fmt.Errorf("delete PodGroup %s: %w", j.name, err)
		}
	}
	for _, pod := range pods {
		if _, ok := t.stuck[pod.Name]; ok {
			continue
		}
		if err := t.deletePod(ctx, pod, j.grace); err != nil {
			return err
		}
	}
	delete(t.jobs, j.name)
	delete(t.raised, j.name)
	return nil
}

// deedsDone returns the number of times that the tenant has done each deed.
func (t *tenant) deedsDone() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.done)
}
