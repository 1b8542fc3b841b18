package invariants

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Invariant names one, as reports do.
type Invariant string

// The invariants, and Names in the order of reports.
const (
	GangPartlyBound    Invariant = "no gang is partly bound longer than its bound"
	GroupPartlyEvicted Invariant = "no group is partly evicted"
	VictimWithoutCause Invariant = "no victim without a living reason"
	LimitExceeded      Invariant = "no limit is exceeded"
	ProtectionBroken   Invariant = "no protection is broken"
	WorkForgotten      Invariant = "what could run runs"
)

// Names are all invariants.
func Names() []Invariant {
	return []Invariant{GangPartlyBound, GroupPartlyEvicted, VictimWithoutCause, LimitExceeded, ProtectionBroken, WorkForgotten}
}

// Bounds are how long what takes several steps may take, in working time. All are positive.
type Bounds struct {
	// Gang is from the first bound member to minCount of them.
	Gang time.Duration
	// Group is from the first member that goes to the last.
	Group time.Duration
	// Reason is how long ago a preemptor may have gone, or found its place, when another of its victims is marked.
	Reason time.Duration
	// Forgotten is how long what could run may wait in calm.
	Forgotten time.Duration
	// Rounding is by how much times of the API may be early: they are in whole seconds.
	Rounding time.Duration
}

// DefaultBounds are those of the soak.
func DefaultBounds() Bounds {
	return Bounds{Gang: 30 * time.Second, Group: 30 * time.Second, Reason: 10 * time.Second, Forgotten: 30 * time.Second, Rounding: time.Second}
}

// Violation is an invariant that has been broken.
type Violation struct {
	Invariant Invariant
	At        time.Time
	// Text says by what.
	Text string
}

// String is the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.Invariant, v.Text)
}

// Counts are what has been seen. All of them only grow.
type Counts struct {
	// States is how many states of objects have been told.
	States int
	// Pods, Bound and Victims are pods that have come, that have got a node, and that went by a preemption.
	Pods, Bound, Victims int
	// Whole counts gangs that came to minCount bound members, Groups those that were evicted whole.
	Whole, Groups int
	// Reclaims are victims, pods or whole groups, of another queue's preemptor.
	Reclaims int
	// Judged is how often an invariant was looked at where it might have been broken.
	Judged map[Invariant]int
}

// Checker finds out whether the invariants hold. Make one with [New]. It is not safe for concurrent use.
type Checker struct {
	bounds Bounds
	time   workingTime

	pods    map[types.NamespacedName]*corev1.Pod
	groups  map[types.NamespacedName]*group
	queues  map[string]*v1alpha1.Queue
	nodes   map[string]*corev1.Node
	classes map[string]*schedulingv1.PriorityClass

	// ended says since when, in working time, a preemptor has no more use for room: it has gone or has all it wants.
	ended map[preemptor]time.Duration
	// released are pods that go by somebody else's hand.
	released map[types.UID]bool
	// able says since when something that waits could run; nil where there is no calm.
	able map[string]time.Time

	found  []Violation
	counts Counts
}

// New returns a Checker that has seen nothing. Working time begins with the given time.
func New(begin time.Time, bounds Bounds) *Checker {
	return &Checker{
		bounds: bounds, time: workingTime{since: begin, runs: true},
		pods: make(map[types.NamespacedName]*corev1.Pod), groups: make(map[types.NamespacedName]*group),
		queues: make(map[string]*v1alpha1.Queue), nodes: make(map[string]*corev1.Node),
		classes: make(map[string]*schedulingv1.PriorityClass),
		ended:   make(map[preemptor]time.Duration), released: make(map[types.UID]bool),
		counts: Counts{Judged: make(map[Invariant]int)},
	}
}

// Violations are those so far, the oldest first.
func (c *Checker) Violations() []Violation { return c.found }

// Counts are what has been seen so far.
func (c *Checker) Counts() Counts { return c.counts }

// Pause stops the working time: the scheduler cannot do its work, or is not there. Pauses may overlap, each ends by a Resume.
func (c *Checker) Pause(now time.Time) { c.time.pause(now) }

// Resume ends a Pause.
func (c *Checker) Resume(now time.Time) { c.time.resume(now) }

// BeginCalm says that nothing comes and goes from now on but by the scheduler.
func (c *Checker) BeginCalm() { c.able = make(map[string]time.Time) }

// EndCalm says that the calm is over.
func (c *Checker) EndCalm() { c.able = nil }

// Release says that somebody else than the scheduler deletes a pod. It is called before the pod goes.
func (c *Checker) Release(uid types.UID) { c.released[uid] = true }

// Tick looks at what should have happened by now. It is to be called every second or so.
func (c *Checker) Tick(now time.Time) {
	for _, g := range c.groups {
		c.checkForming(now, g)
		c.checkEviction(now, g)
	}
	if c.able != nil {
		c.checkForgotten(now)
	}
}

// SeePod tells the next state of a pod.
func (c *Checker) SeePod(at time.Time, now *corev1.Pod) {
	c.counts.States++
	key := keyOf(now)
	before := c.pods[key]
	if before != nil && before.UID != now.UID {
		c.PodGone(at, key)
		before = nil
	}
	c.pods[key] = now
	if before == nil {
		c.counts.Pods++
		before = &corev1.Pod{}
	}
	if now.Spec.NodeName != "" && before.Spec.NodeName == "" {
		c.counts.Bound++
		c.checkLimits(at, now)
	}
	if said := markOf(now); said != nil && (markOf(before) == nil || *markOf(before) != *said) {
		c.judgeMark(at, now, said.Message)
	}
	goes := now.DeletionTimestamp != nil && before.DeletionTimestamp == nil
	if goes {
		c.victimGoes(at, now)
	}
	if !isWaiting(now) {
		c.end(at, preemptor{kind: v1alpha1.PreemptorPod, name: key})
	}
	c.follow(at, now, goes)
}

// PodGone says that a pod does not exist any more.
func (c *Checker) PodGone(at time.Time, key types.NamespacedName) {
	c.counts.States++
	pod := c.pods[key]
	if pod == nil {
		return
	}
	goes := pod.DeletionTimestamp == nil
	if goes {
		c.victimGoes(at, pod)
	}
	delete(c.pods, key)
	delete(c.released, pod.UID)
	c.end(at, preemptor{kind: v1alpha1.PreemptorPod, name: key})
	c.follow(at, pod, goes)
}

// SeeQueue tells the next state of a Queue, and SeeNode and SeeClass that of a node and of a PriorityClass.
func (c *Checker) SeeQueue(q *v1alpha1.Queue) {
	c.counts.States++
	c.queues[q.Name] = q
}

// SeeNode tells the next state of a node.
func (c *Checker) SeeNode(node *corev1.Node) {
	c.counts.States++
	c.nodes[node.Name] = node
}

// SeeClass tells the next state of a PriorityClass.
func (c *Checker) SeeClass(class *schedulingv1.PriorityClass) {
	c.counts.States++
	c.classes[class.Name] = class
}

// NodeGone says that a node does not exist any more.
func (c *Checker) NodeGone(name string) {
	c.counts.States++
	delete(c.nodes, name)
}

// Pods visits the pods that there are, in no order, until yield returns false. They must not be changed.
func (c *Checker) Pods(yield func(*corev1.Pod) bool) {
	for _, pod := range c.pods {
		if !yield(pod) {
			return
		}
	}
}

// Groups visits the PodGroups that there are, in no order, until yield returns false. They must not be changed.
func (c *Checker) Groups(yield func(*v1alpha1.PodGroup) bool) {
	for _, g := range c.groups {
		if !g.gone && !yield(g.PodGroup) {
			return
		}
	}
}

func (c *Checker) violate(invariant Invariant, at time.Time, format string, args ...any) {
	c.found = append(c.found, Violation{Invariant: invariant, At: at, Text: fmt.Sprintf(format, args...)})
}

// workingTime goes on while nothing pauses it.
type workingTime struct {
	runs   bool
	since  time.Time
	before time.Duration
	pauses int
}

func (w *workingTime) at(now time.Time) time.Duration {
	if !w.runs || now.Before(w.since) {
		return w.before
	}
	return w.before + now.Sub(w.since)
}

func (w *workingTime) pause(now time.Time) {
	w.pauses++
	w.before = w.at(now)
	w.since, w.runs = now, false
}

func (w *workingTime) resume(now time.Time) {
	if w.pauses--; w.pauses == 0 {
		w.since, w.runs = now, true
	}
}
