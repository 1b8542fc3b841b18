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

// Work is a pod or a group that may count for a queue: a single pod, a member of a group, or a
// group.
type Work struct {
	Namespace string
	// Named is the queue that the work or its group names; "" for none.
	Named string
	// Ours is true if a profile of this scheduler schedules the work. Only such work can use the
	// default queue of its namespace.
	Ours bool
	// Required is true if the profile accepts only work in a queue.
	Required bool
	// Priority is the effective priority of the work; Unknown until it has one.
	Priority int32
	// Placed is true for work with a node, and Pod is the pod on that node.
	Placed bool
	Pod    types.UID
}

// OtherWords finds the queue that a pod names for another scheduler, in labels or annotations.
type OtherWords interface {
	// QueueOf returns the queue that a pod names in this way, if its profile reads such keys; ""
	// for none.
	QueueOf(pod *corev1.Pod) string
}

// NamedBy returns the queue that a pod itself names, by the label of its profile or by the keys of
// another scheduler. It returns "" for none.
func NamedBy(pod *corev1.Pod, label string, words OtherWords) string {
	if name := pod.Labels[label]; name != "" {
		return name
	}
	return words.QueueOf(pod)
}

// Unknown is the priority of work that has no priority yet. It is below every bound.
const Unknown int32 = math.MinInt32

// Claim is the queue that work counts for, and the reason why the work may not start.
type Claim struct {
	// Queue is "" for none.
	Queue string
	// Bar is the reason why the work may not use its queue; the zero Verdict if it may. Such work
	// is not planned, because no node would help it.
	Bar gang.Verdict
	// Confined is true if Bar is about the work itself. Then the work has no demand. If Bar is
	// about the queue, the work counts under the queue's name, and for the queue once the queue is
	// usable.
	Confined bool
}

// tenant has the facts about a namespace that matter for queues.
type tenant struct {
	labels labels.Set
	// queue is the namespace's default queue; "" for none.
	queue string
}

// access has the rules that decide which work may use a queue. Each rule comes from the queue
// itself, or from the closest ancestor that sets the rule.
type access struct {
	// selector selects namespaces; nil for all namespaces. flaw is the reason why the selector
	// cannot be parsed; "" if it can.
	selector labels.Selector
	shown    *metav1.LabelSelector
	flaw     string
	// class is the PriorityClass that bounds priorities; "" for none. highest is its value; nil if
	// the class does not exist. classes lists the PriorityClasses up to that value.
	class   string
	highest *int32
	classes []string
}

// Claim returns the queue that work counts for, and whether the work may use the queue. Admission,
// turns and charges all follow this rule. The admission policies of deploy/admission-queues.yaml
// reject part of the work that Claim blocks.
//
// Waiting work counts for no queue if the access rules of its queue exclude it. If the queue does
// not exist or cannot hold work, waiting work counts under its name.
//
// Running work keeps its previous queue if it no longer names a queue. It also keeps the queue if
// it names one that cannot hold work or that excludes its namespace. So a change of a queue's
// settings does not make running work evictable, and a user gains nothing from naming another
// team's queue. A bound of priorities does not affect running work. A pod that already runs when
// the scheduler first sees it, for example after a restart, counts for the queue that it names. If
// the queue excludes its namespace, this holds only for profiles of this scheduler, because some
// check let the pod start.
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
			// The pod now names a queue that cannot hold work.
			c.Queue = before.queue
			b.misnamed.Insert(w.Pod)
		}
		// The work counts under the name of the queue, even if the queue does not exist.
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

// sealed returns the queue of running work that no longer names a queue; "" for other work. For
// example, the label or the owner reference was removed, or the PodGroup was deleted. A user could
// do all of this to run work outside of the quota and limit of its queue. A change of the
// namespace's default queue does not move such work either. The caller holds the lock.
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

// NameFor returns the queue that work names, or the default of its namespace. The queue need not
// exist.
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

// unqueued returns the verdict on work that names no queue.
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

// confines returns the reason why the access rules of a queue exclude some work.
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

// IsBar reports whether Claim blocks work for this verdict. ReasonPending is not such a reason,
// because the missing information may arrive by itself.
func IsBar(v gang.Verdict) bool {
	switch v.Reason {
	case v1alpha1.ReasonQueueNotFound, v1alpha1.ReasonQueueNotLeaf, v1alpha1.ReasonQueueUnusable,
		v1alpha1.ReasonQueueNotAllowed, v1alpha1.ReasonPriorityAboveQueue, v1alpha1.ReasonQueueRequired:
		return true
	default:
		return false
	}
}

// accessesIn returns the access rules of each queue, by index in a tree. The caller must not change
// the result.
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

// SameAccess reports whether two statuses have the same access rules.
func SameAccess(a, b *v1alpha1.QueueStatus) bool {
	return apiequality.Semantic.DeepEqual(a.NamespaceSelector, b.NamespaceSelector) &&
		apiequality.Semantic.DeepEqual(a.MaxPriority, b.MaxPriority) && slices.Equal(a.PriorityClasses, b.PriorityClasses)
}

// SetNamespace adds or updates a namespace. It reports whether the access to queues or the default
// queue may have changed.
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

// SetClass adds or updates a PriorityClass. It reports whether the value changed while any queue
// bounds priorities. Then the caller must check the work of queues again.
func (b *Ledger) SetClass(name string, value int32) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before, known := b.classes[name]; known && before == value {
		return false
	}
	b.classes[name] = value
	return b.reclassed()
}

// DeleteClass is SetClass for a deleted PriorityClass.
func (b *Ledger) DeleteClass(name string) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.classes, name)
	return b.reclassed()
}

func (b *Ledger) reclassed() bool {
	b.forgetAccesses()
	// The status of queues lists PriorityClasses, so Snapshots are outdated.
	b.counted++
	for _, q := range b.queues {
		if q.Spec.MaxPriorityClass != nil {
			return true
		}
	}
	return false
}

// isConfining reports whether a change of a queue may affect access to queues. That is so if the
// queue has access rules, or if its parent changed and any queue has access rules.
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
