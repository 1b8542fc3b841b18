package invariants

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Invariant is the name of an invariant in the report.
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

// Names returns all invariants in the order of the report.
func Names() []Invariant {
	return []Invariant{GangPartlyBound, GroupPartlyEvicted, VictimWithoutCause, LimitExceeded, ProtectionBroken, WorkForgotten, EntitlementDelayed}
}

// Bounds has the longest permitted durations. They are measured in working time, which stops while
// the scheduler cannot work. All are positive.
type Bounds struct {
	// Gang bounds the time from the binding of a gang's first member until minCount members are
	// bound.
	Gang time.Duration
	// Group bounds the time from the deletion of a group's first member until its last member is
	// deleted.
	Group time.Duration
	// Reason bounds the time during which victims may still be marked for a preemptor that was
	// placed or is gone.
	Reason time.Duration
	// Forgotten bounds the time during a calm that work waits although it has room.
	Forgotten time.Duration
	// Entitled bounds the time that a pod waits for room in the quota of its queue.
	Entitled time.Duration
	// Rounding is the greatest error of times in the API, which are rounded to seconds.
	Rounding time.Duration
}

// DefaultBounds returns the bounds for the endurance test.
func DefaultBounds() Bounds {
	return Bounds{
		Gang: 30 * time.Second, Group: 30 * time.Second, Reason: 10 * time.Second, Forgotten: 30 * time.Second,
		Entitled: 40 * time.Second, Rounding: time.Second,
	}
}

// Violation is a violation of an invariant.
type Violation struct {
	Invariant Invariant
	At        time.Time
	// Text describes the violation.
	Text string
}

// String returns the violation as one line of text.
func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.Invariant, v.Text)
}

// Counts has statistics of a Checker. Each number only increases.
type Counts struct {
	// States is the number of processed states of objects.
	States int
	// Pods is the number of created pods, Bound the number of pods that got a node, and Victims the
	// number of preempted pods.
	Pods, Bound, Victims int
	// Whole is the number of gangs that have reached minCount bound members. Groups is the number
	// of groups that were evicted as a whole.
	Whole, Groups int
	// Reclaims is the number of victims whose preemptor is in another queue. A whole group counts
	// as one.
	Reclaims int
	// Entitled is the longest working time that a pod has waited for room in the quota of its
	// queue.
	Entitled time.Duration
	// Judged is the number of checks of each invariant that could have found a violation.
	Judged map[Invariant]int
}

// Checker processes the states of objects and checks the invariants. Use [New] to create one. It is
// not safe for concurrent use.
type Checker struct {
	bounds Bounds
	time   workingTime

	pods    map[types.NamespacedName]*corev1.Pod
	groups  map[types.NamespacedName]*group
	queues  map[string]*v1alpha1.Queue
	nodes   map[string]*corev1.Node
	classes map[string]*schedulingv1.PriorityClass
	trees   map[types.NamespacedName]*v1alpha1.CompositePodGroup
	// begun maps the UID of the root of a tree to the time when its first pod got its node.
	begun map[types.UID]time.Time

	// ended maps a preemptor to the working time when it stopped needing room, because it was
	// gone or completely placed.
	ended map[preemptor]time.Duration
	// released has the UIDs of pods that the test itself deletes.
	released map[types.UID]bool
	// placed has facts about each pod from the time when the pod got its node.
	placed map[types.UID]placement
	// entitled maps the UID of a waiting pod to the working time since which its queue has had
	// quota and room for it.
	entitled map[types.UID]time.Duration
	// able maps the name of waiting work to the time since which it has had room. It is nil if
	// there is no calm.
	able map[string]time.Time

	found  []Violation
	counts Counts
}

// New returns a Checker that has processed no states. Working time starts at the time begin.
func New(begin time.Time, bounds Bounds) *Checker {
	return &Checker{
		bounds: bounds, time: workingTime{since: begin, runs: true},
		pods: make(map[types.NamespacedName]*corev1.Pod), groups: make(map[types.NamespacedName]*group),
		queues: make(map[string]*v1alpha1.Queue), nodes: make(map[string]*corev1.Node),
		classes: make(map[string]*schedulingv1.PriorityClass),
		trees:   make(map[types.NamespacedName]*v1alpha1.CompositePodGroup), begun: make(map[types.UID]time.Time),
		ended: make(map[preemptor]time.Duration), released: make(map[types.UID]bool),
		placed: make(map[types.UID]placement), entitled: make(map[types.UID]time.Duration),
		counts: Counts{Judged: make(map[Invariant]int)},
	}
}

// Violations returns all violations so far, the oldest first.
func (c *Checker) Violations() []Violation { return c.found }

// Counts returns the statistics so far.
func (c *Checker) Counts() Counts { return c.counts }

// Pause stops the working time. Call it when the scheduler cannot work. Pauses may overlap, and
// each must be ended by a call of Resume.
func (c *Checker) Pause(now time.Time) { c.time.pause(now) }

// Resume ends a pause. If no other pause is active, working time continues.
func (c *Checker) Resume(now time.Time) { c.time.resume(now) }

// BeginCalm begins a calm. During a calm, nothing but the scheduler may create or delete objects.
func (c *Checker) BeginCalm() { c.able = make(map[string]time.Time) }

// EndCalm ends the calm.
func (c *Checker) EndCalm() { c.able = nil }

// Release tells the Checker that the test will delete a pod, so the deletion is no preemption. Call
// it before the deletion.
func (c *Checker) Release(uid types.UID) { c.released[uid] = true }

// Tick checks whether a bound has been exceeded. Call it about once per second.
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

// SeePod processes a new state of a pod.
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

// PodGone processes the end of a pod's existence.
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

// SeeQueue processes a new state of a Queue.
func (c *Checker) SeeQueue(q *v1alpha1.Queue) {
	c.counts.States++
	c.queues[q.Name] = q
}

// SeeNode processes a new state of a node.
func (c *Checker) SeeNode(node *corev1.Node) {
	c.counts.States++
	c.nodes[node.Name] = node
}

// SeeClass processes a new state of a PriorityClass.
func (c *Checker) SeeClass(class *schedulingv1.PriorityClass) {
	c.counts.States++
	c.classes[class.Name] = class
}

// NodeGone processes the end of a node's existence.
func (c *Checker) NodeGone(name string) {
	c.counts.States++
	delete(c.nodes, name)
}

// Pods calls yield for each existing pod, until yield returns false. The order is random. yield
// must not change the pod.
func (c *Checker) Pods(yield func(*corev1.Pod) bool) {
	for _, pod := range c.pods {
		if !yield(pod) {
			return
		}
	}
}

// Groups calls yield for each existing PodGroup, until yield returns false. The order is random.
// yield must not change the PodGroup.
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

// workingTime is a clock that stops during pauses.
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
