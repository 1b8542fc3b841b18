package queue

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Work describes work that may count for a queue: a single pod, a member of a group, or a group.
type Work struct {
	Namespace string
	// Named is the queue that the work or its group names; "" for none.
	Named string
	// Ours is true if a profile of this scheduler schedules the work. Other work cannot use the
	// default queue of its namespace.
	Ours bool
	// Required is true if the profile of the work accepts only work in a queue.
	Required bool
	// Priority is the effective priority of the work; Unknown if it is not known yet.
	Priority int32
	// Placed is true for work with a node.
	Placed bool
	// Pod is the UID of the pod on the node, if Placed is true.
	Pod types.UID
}

// OtherWords finds the queue that a pod names in the labels or annotations of another scheduler.
type OtherWords interface {
	// QueueOf returns the queue that a pod names in keys of the other scheduler; "" for none. It
	// also returns "" if the pod's profile does not read these keys.
	QueueOf(pod *corev1.Pod) string
}

// NamedBy returns the queue that a pod itself names, in the label of its profile or in the keys of
// another scheduler; "" for none.
func NamedBy(pod *corev1.Pod, label string, words OtherWords) string {
	if name := pod.Labels[label]; name != "" {
		return name
	}
	return words.QueueOf(pod)
}

// Unknown is the priority of work whose priority is not known yet. It is lower than every bound.
const Unknown int32 = math.MinInt32

// Claim says which queue work counts for, and why the work may not use the queue that it names.
type Claim struct {
	// Queue is "" for none.
	Queue string
	// Bar is the reason why the work may not use its queue; the zero Verdict if it may. The
	// scheduler does not plan work with a Bar, because no node would help it.
	Bar gang.Verdict
	// Confined is true if Bar is about the work itself, which then has no demand. If Bar is about
	// the queue, Confined is false. In this case, the ledger records the work under the queue's
	// name. When the queue becomes usable, the work counts for it.
	Confined bool
}

// tenant has the facts about a namespace that determine the queues of its work.
type tenant struct {
	labels labels.Set
	// queue is the namespace's default queue; "" for none.
	queue string
}

// access has the rules that decide which work may use a queue. Each rule comes from the queue, or
// else from the closest ancestor that sets the rule.
type access struct {
	// selector selects the namespaces whose work may use the queue; nil for all namespaces. shown
	// is the same selector in the form of the API. flaw is the reason why the selector cannot be
	// parsed; "" if it can.
	selector labels.Selector
	shown    *metav1.LabelSelector
	flaw     string
	// class is the PriorityClass that is the upper bound for priorities; "" for none. highest is
	// its value; nil if the class does not exist.
	class   string
	highest *int32
	// classes lists the PriorityClasses that work of the queue may use: their values do not exceed
	// the bound.
	classes []string
}

// Claim returns the queue that work counts for, and whether the work may use its queue. Admission,
// turns and charges all use this result. The admission policies in deploy/admission-queues.yaml
// reject some of the work that Claim blocks.
//
// Waiting work that the access rules of its queue exclude counts for no queue. If the queue does
// not exist or cannot hold work, waiting work counts under the queue's name.
//
// Running work keeps its previous queue in these cases:
//
//   - It no longer names a queue.
//   - It names a queue that cannot hold work.
//   - It names a queue whose rules exclude its namespace.
//
// So a change of a queue's settings does not make running work evictable, and a user gains nothing
// by naming the queue of another team. A bound of priorities does not affect running work.
//
// A pod that runs when the scheduler first sees it, for example after a restart, counts for the
// queue that it names. If the queue excludes its namespace, this applies only to pods of this
// scheduler's profiles, because an earlier check has permitted their start.
func (b *Ledger) Claim(w Work) Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queues) == 0 {
		bar := w.unqueued()
		return Claim{Bar: bar, Confined: bar != (gang.Verdict{})}
	}
	b.misnamed.Delete(w.Pod)
	if sealed := b.sealed(&w); sealed != "" {
		return Claim{Queue: sealed}
	}
	c := Claim{Queue: b.nameFor(w)}
	if c.Queue == "" {
		if _, known := b.namespaces[w.Namespace]; !known && w.Ours && !w.Placed {
			c.Bar, c.Confined = unknownNamespace(w.Namespace), true
			return c
		}
		c.Bar = w.unqueued()
		c.Confined = c.Bar != (gang.Verdict{})
		return c
	}
	if c.Bar = b.check(c.Queue); c.Bar != (gang.Verdict{}) {
		if before, ok := b.pods[w.Pod]; ok && w.Placed && b.check(before.queue) == (gang.Verdict{}) {
			// The pod names a queue that cannot hold work, so it keeps its previous queue.
			c.Queue = before.queue
			b.misnamed.Insert(w.Pod)
		}
		// Record the work under the name of the queue, even if the queue does not exist.
		return c
	}
	c.Bar = b.confines(c.Queue, &w)
	c.Confined = c.Bar != (gang.Verdict{})
	switch {
	case !c.Confined:
	case !w.Placed:
		c.Queue = ""
	case c.Bar.Reason == v1alpha1.ReasonQueueNotAllowed:
		if before, ok := b.pods[w.Pod]; ok {
			c.Queue = before.queue
		} else if !w.Ours {
			c.Queue = ""
		}
	}
	return c
}

// sealed returns the previous queue of running work that no longer names a queue; "" for other
// work. Work stops naming a queue if its label, its owner reference or its PodGroup is removed.
// Users could do this to escape the quota and limit of the queue. A change of the namespace's
// default queue does not move such work either. The caller holds the lock.
func (b *Ledger) sealed(w *Work) string {
	if !w.Placed || w.Named != "" {
		return ""
	}
	before, ok := b.pods[w.Pod]
	if !ok || before.queue == "" || b.keptAbove(before.queue) == "" && b.check(before.queue) != (gang.Verdict{}) {
		return ""
	}
	return before.queue
}

// NameFor returns the queue that work names, or else the default queue of its namespace. The queue
// may not exist.
func (b *Ledger) NameFor(w Work) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nameFor(w)
}

func (b *Ledger) nameFor(w Work) string {
	if w.Named == "" && w.Ours {
		return b.namespaces[w.Namespace].queue
	}
	return w.Named
}

// HasDefault reports whether a namespace has a default queue.
func (b *Ledger) HasDefault(namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.namespaces[namespace].queue != ""
}

// unqueued returns the verdict on work that names no queue; zero if the work needs no queue.
func (w *Work) unqueued() gang.Verdict {
	if !w.Required {
		return gang.Verdict{}
	}
	return gang.Verdict{
		Reason: v1alpha1.ReasonQueueRequired,
		Message: fmt.Sprintf("it is in no queue, and queues.required lets nothing start without one; name a Queue, or give namespace %q a default by its annotation %s",
			w.Namespace, v1alpha1.AnnotationDefaultQueue),
	}
}

// confines returns the reason why the access rules of a queue exclude the work; zero if they do
// not.
func (b *Ledger) confines(queue string, w *Work) gang.Verdict {
	a := b.accessTo(queue)
	if a.selector != nil {
		of, known := b.namespaces[w.Namespace]
		switch {
		case !known && !w.Placed:
			return unknownNamespace(w.Namespace)
		case a.flaw != "":
			return gang.Verdict{Reason: v1alpha1.ReasonQueueNotAllowed, Message: fmt.Sprintf("Queue %q is for no namespace: its namespaceSelector cannot be read: %s", queue, a.flaw)}
		case !a.selector.Matches(of.labels):
			return gang.Verdict{
				Reason:  v1alpha1.ReasonQueueNotAllowed,
				Message: fmt.Sprintf("Queue %q is not for namespace %q: its namespaceSelector does not select it", queue, w.Namespace),
			}
		}
	}
	switch {
	case a.class == "":
	case a.highest == nil:
		return unusable(queue, fmt.Sprintf("PriorityClass %q, its maxPriorityClass, does not exist", a.class))
	case w.Priority > *a.highest:
		return gang.Verdict{
			Reason:  v1alpha1.ReasonPriorityAboveQueue,
			Message: fmt.Sprintf("priority %d is above %d, the highest that Queue %q takes (PriorityClass %q)", w.Priority, *a.highest, queue, a.class),
		}
	}
	return gang.Verdict{}
}

func unknownNamespace(name string) gang.Verdict {
	return gang.Verdict{Reason: v1alpha1.ReasonPending, Message: fmt.Sprintf("namespace %q is not known yet", name)}
}

// IsBar reports whether a verdict is a reason why Claim blocks work. ReasonPending is no such
// reason, because the missing information arrives without a change by users.
func IsBar(v gang.Verdict) bool {
	switch v.Reason {
	case v1alpha1.ReasonQueueNotFound, v1alpha1.ReasonQueueNotLeaf, v1alpha1.ReasonQueueUnusable,
		v1alpha1.ReasonQueueNotAllowed, v1alpha1.ReasonPriorityAboveQueue, v1alpha1.ReasonQueueRequired:
		return true
	default:
		return false
	}
}

// accessesIn returns the access rules of each queue, by index in the tree. The caller must not
// change the result.
func (b *Ledger) accessesIn(tree *fairshare.Tree) []*access {
	if b.accessOrder == nil {
		b.accessOrder = make([]*access, tree.Len())
		for i := range b.accessOrder {
			b.accessOrder[i] = b.accessTo(tree.Queue(int32(i)).Name)
		}
	}
	return b.accessOrder
}

func (b *Ledger) forgetAccesses() {
	clear(b.accesses)
	b.accessOrder = nil
}

// accessTo returns the access rules of a queue.
func (b *Ledger) accessTo(queue string) *access {
	if a, ok := b.accesses[queue]; ok {
		return a
	}
	a := &access{}
	for _, name := range b.path(queue) {
		spec := &b.queues[name].Spec
		if a.shown == nil && spec.NamespaceSelector != nil {
			a.shown = spec.NamespaceSelector
		}
		if a.class == "" && spec.MaxPriorityClass != nil {
			a.class = *spec.MaxPriorityClass
		}
	}
	if a.shown != nil {
		var err error
		if a.selector, err = metav1.LabelSelectorAsSelector(a.shown); err != nil {
			a.selector, a.flaw = labels.Nothing(), err.Error()
		}
	}
	if highest, ok := b.classes[a.class]; ok && a.class != "" {
		a.highest = &highest
		for name, value := range b.classes {
			if value <= highest {
				a.classes = append(a.classes, name)
			}
		}
		slices.Sort(a.classes)
	}
	b.accesses[queue] = a
	return a
}

// setStatus writes the access rules into the status of a queue.
func (a *access) setStatus(st *v1alpha1.QueueStatus) {
	st.NamespaceSelector, st.MaxPriority, st.PriorityClasses = a.shown.DeepCopy(), nil, slices.Clone(a.classes)
	if a.highest != nil {
		highest := *a.highest
		st.MaxPriority = &highest
	}
}

// SameAccess reports whether the statuses of two Queues show the same access rules.
func SameAccess(a, b *v1alpha1.QueueStatus) bool {
	return apiequality.Semantic.DeepEqual(a.NamespaceSelector, b.NamespaceSelector) &&
		apiequality.Semantic.DeepEqual(a.MaxPriority, b.MaxPriority) && slices.Equal(a.PriorityClasses, b.PriorityClasses)
}

// SetNamespace adds or updates a namespace. It reports whether access to queues or a default queue
// may have changed.
func (b *Ledger) SetNamespace(ns *corev1.Namespace) (changed bool) {
	now := tenant{labels: labels.Set(ns.Labels), queue: ns.Annotations[v1alpha1.AnnotationDefaultQueue]}
	b.mu.Lock()
	defer b.mu.Unlock()
	before, known := b.namespaces[ns.Name]
	b.namespaces[ns.Name] = now
	if before.queue != now.queue {
		b.rehomed++
	}
	return !known || before.queue != now.queue || !labels.Equals(before.labels, now.labels)
}

// DeleteNamespace removes a namespace.
func (b *Ledger) DeleteNamespace(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.namespaces, name)
}

// SetClass adds or updates a PriorityClass. It reports whether its value changed while any queue
// bounds priorities. If so, the caller must check the work of queues again.
func (b *Ledger) SetClass(name string, value int32) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before, known := b.classes[name]; known && before == value {
		return false
	}
	b.classes[name] = value
	return b.reclassed()
}

// DeleteClass removes a PriorityClass. The result has the same meaning as in SetClass.
func (b *Ledger) DeleteClass(name string) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.classes, name)
	return b.reclassed()
}

func (b *Ledger) reclassed() bool {
	b.forgetAccesses()
	// The status of Queues lists PriorityClasses, so the cached Snapshots are outdated.
	b.counted++
	for _, q := range b.queues {
		if q.Spec.MaxPriorityClass != nil {
			return true
		}
	}
	return false
}

// isConfining reports whether a change of queues may affect access to queues. This is so if one of
// the changed queues has access rules, or if a parent changed and any queue has access rules.
func (b *Ledger) isConfining(changed ...*v1alpha1.Queue) bool {
	says := func(q *v1alpha1.Queue) bool {
		return q != nil && (q.Spec.NamespaceSelector != nil || q.Spec.MaxPriorityClass != nil)
	}
	for _, q := range changed {
		if says(q) {
			return true
		}
	}
	if len(changed) == 2 && changed[0] != nil && changed[1] != nil && parentOf(changed[0]) == parentOf(changed[1]) {
		return false
	}
	for _, q := range b.queues {
		if says(q) {
			return true
		}
	}
	return false
}

func parentOf(q *v1alpha1.Queue) string {
	if q.Spec.Parent == nil {
		return ""
	}
	return *q.Spec.Parent
}
