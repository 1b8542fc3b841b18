package invariants

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Invariant is the name of an invariant in reports.
type Invariant string

// These are the invariants.
const (
	GangPartlyBound    Invariant = "no gang stays partly bound"
	GroupPartlyEvicted Invariant = "no group is partly evicted"
	VictimWithoutCause Invariant = "no victim without a waiting preemptor"
	LimitExceeded      Invariant = "no limit is exceeded"
	ProtectionBroken   Invariant = "no protection is broken"
	WorkForgotten      Invariant = "work that can run does run"
	EntitlementDelayed Invariant = "entitled pods get their room within a bound"
)

// Names returns all invariants, in the order of reports.
func Names() []Invariant {
	return []Invariant{GangPartlyBound, GroupPartlyEvicted, VictimWithoutCause, LimitExceeded, ProtectionBroken, WorkForgotten, EntitlementDelayed}
}

// Bounds are the longest durations of processes with several steps, in working time. All are
// positive.
type Bounds struct {
	// Gang is the time from the first bound member of a gang until minCount members are bound.
	Gang time.Duration
	// Group is the time from the deletion of a group's first member to the deletion of the last
	// one.
	Group time.Duration
	// Reason is the longest time after the end or the placement of a preemptor until another of its
	// victims is marked.
	Reason time.Duration
	// Forgotten is the longest time that work waits in calm although it could run.
	Forgotten time.Duration
	// Entitled is the longest time that a pod waits for room that its queue has quota for.
	Entitled time.Duration
	// Rounding is the error of times in the API, which are in whole seconds.
	Rounding time.Duration
}

// DefaultBounds returns the bounds of the soak test.
func DefaultBounds() Bounds {
	return Bounds{
		Gang: 30 * time.Second, Group: 30 * time.Second, Reason: 10 * time.Second, Forgotten: 30 * time.Second,
		Entitled: 40 * time.Second, Rounding: time.Second,
	}
}

// Violation is a broken invariant.
type Violation struct {
	Invariant Invariant
	At        time.Time
	// Text describes the violation.
	Text string
}

// String returns the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.Invariant, v.Text)
}

// Counts are statistics of a Checker. All of them only grow.
type Counts struct {
	// States counts the states of objects.
	States int
	// Pods, Bound and Victims count the pods that were created, that got a node, and that were
	// preempted.
	Pods, Bound, Victims int
	// Whole counts the gangs that reached minCount bound members. Groups counts the groups that
	// were evicted as a whole.
	Whole, Groups int
	// Reclaims counts the victims, pods or whole groups, with a preemptor of another queue.
	Reclaims int
	// Entitled is the longest time, in working time, that a pod has waited for room that its queue
	// has quota for.
	Entitled time.Duration
	// Judged counts, by invariant, the checks that could find a violation.
	Judged map[Invariant]int
}

// Checker checks the invariants. Create one with [New]. It is not safe for concurrent use.
type Checker struct {
	bounds Bounds
	time   workingTime

	pods    map[types.NamespacedName]*corev1.Pod
	groups  map[types.NamespacedName]*group
	queues  map[string]*v1alpha1.Queue
	nodes   map[string]*corev1.Node
	classes map[string]*schedulingv1.PriorityClass

	// ended has the time, in working time, since a preemptor needs no room. It is gone, or all of
	// it is placed.
	ended map[preemptor]time.Duration
	// released are the pods that the test deletes itself.
	released map[types.UID]bool
	// placed has the facts about each pod with a node when it got the node.
	placed map[types.UID]placement
	// entitled has the time, in working time, since waiting work must get a node.
	entitled map[types.UID]time.Duration
	// able has the time since waiting work could run; nil outside of calm.
	able map[string]time.Time

	found  []Violation
	counts Counts
}

// New returns a Checker without any states. Working time begins at begin.
func New(begin time.Time, bounds Bounds) *Checker {
	return &Checker{
		bounds: bounds, time: workingTime{since: begin, runs: true},
		pods: make(map[types.NamespacedName]*corev1.Pod), groups: make(map[types.NamespacedName]*group),
		queues: make(map[string]*v1alpha1.Queue), nodes: make(map[string]*corev1.Node),
		classes: make(map[string]*schedulingv1.PriorityClass),
		ended:   make(map[preemptor]time.Duration), released: make(map[types.UID]bool),
		placed: make(map[types.UID]placement), entitled: make(map[types.UID]time.Duration),
		counts: Counts{Judged: make(map[Invariant]int)},
	}
}

// Violations returns the violations so far, the oldest first.
func (c *Checker) Violations() []Violation { return c.found }

// Counts returns the statistics so far.
func (c *Checker) Counts() Counts { return c.counts }

// Pause stops the working time because the scheduler does not run or cannot work. Pauses may
// overlap. Each ends with a Resume.
func (c *Checker) Pause(now time.Time) { c.time.pause(now) }

// Resume ends a Pause.
func (c *Checker) Resume(now time.Time) { c.time.resume(now) }

// BeginCalm begins a calm. During a calm, only the scheduler creates or deletes anything.
func (c *Checker) BeginCalm() { c.able = make(map[string]time.Time) }

// EndCalm ends the calm.
func (c *Checker) EndCalm() { c.able = nil }

// Release announces that the test, and not the scheduler, deletes a pod. Call it before the
// deletion.
func (c *Checker) Release(uid types.UID) { c.released[uid] = true }

// Tick checks everything that should have happened by now. Call it about every second.
func (c *Checker) Tick(now time.Time) {
	for _, g := range c.groups {
		c.checkForming(now, g)
		c.checkEviction(now, g)
	}
	c.checkEntitled(now)
	if c.able != nil {
		c.checkForgotten(now)
	}
}

// SeePod processes the next state of a pod.
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
		c.place(now)
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

// PodGone processes the disappearance of a pod.
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
	delete(c.placed, pod.UID)
	delete(c.entitled, pod.UID)
}

// SeeQueue processes the next state of a Queue.
func (c *Checker) SeeQueue(q *v1alpha1.Queue) {
	c.counts.States++
	c.queues[q.Name] = q
}

// SeeNode processes the next state of a node.
func (c *Checker) SeeNode(node *corev1.Node) {
	c.counts.States++
	c.nodes[node.Name] = node
}

// SeeClass processes the next state of a PriorityClass.
func (c *Checker) SeeClass(class *schedulingv1.PriorityClass) {
	c.counts.States++
	c.classes[class.Name] = class
}

// NodeGone processes the disappearance of a node.
func (c *Checker) NodeGone(name string) {
	c.counts.States++
	delete(c.nodes, name)
}

// Pods visits the existing pods, in no order, until yield returns false. The pods must not be
// changed.
func (c *Checker) Pods(yield func(*corev1.Pod) bool) {
	for _, pod := range c.pods {
		if !yield(pod) {
			return
		}
	}
}

// Groups visits the existing PodGroups, in no order, until yield returns false. The PodGroups must
// not be changed.
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

// workingTime is a clock that stands still during pauses.
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
