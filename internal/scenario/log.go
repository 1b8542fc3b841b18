package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/replay"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// ErrNoCluster is the error of [FromLog] for a log that contains no cluster.
var ErrNoCluster = errors.New("the log has no cluster in it")

// slot is one pod of some work, together with the pods that replaced it after evictions.
type slot struct {
	// first is the first of these pods, in its first recorded state.
	first *corev1.Pod
	// came is the time when the first pod arrived. placed is the time when the current pod was
	// first seen on a node. ended is the time when the current pod ended. placed and ended are zero
	// before that.
	came, placed, ended time.Time
	// ran is the total running time of the earlier pods.
	ran time.Duration
	// uid is the UID of the current pod.
	uid types.UID
}

// course is the history of the pods in a log.
type course struct {
	evicted map[types.UID]bool
	slots   []*slot
	// byUID and byName hold the slots of the existing pods.
	byUID  map[types.UID]*slot
	byName map[types.NamespacedName]*slot
	// vacant holds the slots of evicted pods that were not replaced yet. The key is the pod's
	// origin.
	vacant map[string][]*slot
	// begins and ends are the first and the last time in the log.
	begins, ends time.Time
	// objects is the first cluster in the log, plus the objects that were added later, except pods.
	objects *inventory.Inventory
}

// FromLog creates the input of a simulation from a decision log. The input starts with the first
// complete state of the cluster in the log. It also has the work that arrived after that state,
// with the running times in the log.
//
// load returns the scheduler configuration for a cluster. FromLog returns ErrNoCluster for a log
// that contains no complete state of a cluster.
func FromLog(ctx context.Context, log *replay.Log, load func(context.Context, *inventory.Inventory) (*config.KubeSchedulerConfiguration, error), a Assumptions) (*simulation.Input, *Facts, error) {
	c := &course{
		evicted: log.Evicted(), byUID: make(map[types.UID]*slot), byName: make(map[types.NamespacedName]*slot), vacant: make(map[string][]*slot),
	}
	if err := log.Walk(c.visit); err != nil {
		return nil, nil, err
	}
	if c.objects == nil {
		return nil, nil, ErrNoCluster
	}
	cfg, err := load(ctx, c.objects)
	if err != nil {
		return nil, nil, err
	}
	changes := make([]inventory.Change, 0, len(c.slots))
	known := make(map[types.UID]lifespan, len(c.slots))
	for _, s := range c.slots {
		changes = append(changes, inventory.Change{Resource: inventory.Pods, Object: s.first})
		known[s.first.UID] = s.lifespan(c.begins, c.ends)
	}
	gone := make(map[types.UID]bool)
	for _, object := range c.objects.Objects(inventory.Pods) {
		gone[object.UID] = true
	}
	objects, err := c.objects.Without(inventory.Pods, gone).At(c.begins).With(changes...)
	if err != nil {
		return nil, nil, err
	}
	return fromCluster(ctx, objects, cfg, a, known)
}

// visit records the changes of one line of the log.
func (c *course) visit(in *decisionlog.Inputs, cluster *inventory.Inventory) error {
	begins := c.objects == nil
	if begins {
		c.objects, c.begins = cluster, in.Time
	}
	c.ends = in.Time
	for resource, list := range in.Objects {
		if resource == inventory.Pods || begins {
			continue
		}
		objects := make([]inventory.Object, len(list))
		for i, raw := range list {
			var err error
			if objects[i], err = inventory.Parse(raw); err != nil {
				return fmt.Errorf("line %d of the inputs of %s: %w", in.Number, in.Process, err)
			}
		}
		c.objects = c.objects.Patched(resource, objects, nil)
	}
	for key, s := range c.byName {
		// The pod was deleted. Another pod may have its name now.
		if object, ok := cluster.Find(inventory.Pods, key.Namespace, key.Name); !ok || object.UID != s.uid {
			c.leaves(key, s, in.Time)
		}
	}
	for _, raw := range in.Objects[inventory.Pods] {
		object, err := inventory.Parse(raw)
		if err != nil {
			return fmt.Errorf("line %d of the inputs of %s: %w", in.Number, in.Process, err)
		}
		pod := &corev1.Pod{}
		if err := object.Into(pod); err != nil {
			return err
		}
		c.see(pod, in.Time)
	}
	return nil
}

// see records the current state of a pod.
func (c *course) see(pod *corev1.Pod, now time.Time) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	s := c.byUID[pod.UID]
	if s == nil {
		if over {
			return
		}
		s = c.slotFor(pod, now)
		s.uid, s.placed, s.ended = pod.UID, time.Time{}, time.Time{}
		c.byUID[pod.UID], c.byName[key] = s, s
	}
	if pod.Spec.NodeName != "" && s.placed.IsZero() {
		s.placed = now
		if at := pod.Status.StartTime; at != nil && at.Time.Before(now) {
			s.placed = at.Time
		}
	}
	if over {
		c.leaves(key, s, now)
	}
}

// slotFor returns the slot for a new pod. If an evicted pod of the same origin was not replaced
// yet, it returns that pod's slot. Otherwise it creates a slot.
func (c *course) slotFor(pod *corev1.Pod, now time.Time) *slot {
	from := origin(pod)
	if vacant := c.vacant[from]; len(vacant) > 0 {
		c.vacant[from] = vacant[1:]
		return vacant[0]
	}
	first := pod.DeepCopy()
	came := pod.CreationTimestamp.Time
	if came.Before(c.begins) || came.After(now) {
		came = now
	}
	if now.After(c.begins) {
		// Clear the node: the pod arrived without a node, although its first recorded state has
		// one.
		first.Spec.NodeName, first.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	}
	first.DeletionTimestamp = nil
	s := &slot{first: first, came: came}
	c.slots = append(c.slots, s)
	return s
}

// origin returns a key for the origin of a pod: its controller, otherwise its group, otherwise its
// name. Pods of one origin replace each other.
func origin(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return "owner " + string(owner.UID)
	}
	if key, ok := gang.GroupOf(pod); ok {
		return "group " + key.String()
	}
	return "pod " + pod.Namespace + "/" + pod.Name
}

// leaves records that a pod no longer exists.
func (c *course) leaves(key types.NamespacedName, s *slot, now time.Time) {
	delete(c.byName, key)
	delete(c.byUID, s.uid)
	if !s.placed.IsZero() {
		s.ran += now.Sub(s.placed)
	}
	s.placed, s.ended = time.Time{}, now
	if c.evicted[s.uid] {
		from := origin(s.first)
		c.vacant[from] = append(c.vacant[from], s)
	}
}

// lifespan returns the arrival and the running time of the slot's pods. Unknown values are 0.
func (s *slot) lifespan(begins, ends time.Time) lifespan {
	out := lifespan{arrives: s.came.Sub(begins), runs: s.ran}
	if !s.placed.IsZero() {
		// The pod still runs at the end of the log. Assume that half of its running time has
		// passed.
		out.runs += 2 * ends.Sub(s.placed)
		out.open = true
	}
	if s.first.Spec.NodeName != "" {
		// Subtract the time that the pod ran before the log began.
		if at := s.first.Status.StartTime; at != nil {
			out.runs = max(out.runs-begins.Sub(at.Time), leastRuns)
		}
	}
	return out
}

// told returns the arrival and running time of a workload that consists of the pods. It is the
// maximum over the pods, according to the log.
func (m *maker) told(pods []*corev1.Pod) lifespan {
	var out lifespan
	for _, pod := range pods {
		l := m.known[pod.UID]
		out.arrives, out.runs, out.open = max(out.arrives, l.arrives), max(out.runs, l.runs), out.open || l.open
	}
	return out
}

// lifespan is the arrival of work, since the start of the simulation, and its running time. For
// work that runs at the start, it is the remaining running time. 0 means unknown. open is true if
// the work still runs at the end of the log.
type lifespan struct {
	arrives, runs time.Duration
	open          bool
}
