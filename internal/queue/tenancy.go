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

// Work is what asks for a queue: a pod by itself, a member of a group, or a group.
type Work struct {
	Namespace string
	// Named is the queue that the work names itself, or its group for it; "" for none.
	Named string
	// Ours is true for work of a profile of this scheduler. The default of a namespace is for such work only.
	Ours bool
	// Required is true where the profile takes no work without a queue.
	Required bool
	// Priority is what counts for the work; Unknown while there is none.
	Priority int32
	// Placed is true for work that has a node, and Pod the pod of it that has.
	Placed bool
	Pod    types.UID
}

// OtherWords are the words of other schedulers in which a pod may name its queue.
type OtherWords interface {
	// QueueOf is the queue that a pod names in them, as far as its profile understands them; "" for none.
	QueueOf(pod *corev1.Pod) string
}

// NamedBy is the queue that a pod names by itself: by the label of its profile, or in other words; "" for none.
func NamedBy(pod *corev1.Pod, label string, words OtherWords) string {
	if name := pod.Labels[label]; name != "" {
		return name
	}
	return words.QueueOf(pod)
}

// Unknown is the priority of work that is given none yet. It is above no bound.
const Unknown int32 = math.MinInt32

// Claim is which queue work counts for, and why it is not to be started.
type Claim struct {
	// Queue is "" for none.
	Queue string
	// Bar is the zero Verdict where nothing keeps the work from being in its queue. Other work is not tried at all: no node helps it.
	Bar gang.Verdict
	// Confined is true where the bar is about the work: it asks for nothing. Where it is about the queue, the work counts under that name,
	// and goes on counting when there is such a queue.
	Confined bool
}

// tenant is what counts of a namespace.
type tenant struct {
	labels labels.Set
	// queue is its default; "" for none.
	queue string
}

// access is which work may use a queue: what it says itself, or the next of those above it that does.
type access struct {
	// selector is nil where all namespaces may, and flaw says why it cannot be read; "" where it can.
	selector labels.Selector
	shown    *metav1.LabelSelector
	flaw     string
	// class is the one that bounds priorities; "" for none. Its value is highest, nil where it does not exist, and classes are
	// those that are not above it.
	class   string
	highest *int32
	classes []string
}

// Claim answers which queue some work counts for, and whether it may. It is the one rule of that: what is held back, has its
// turn and is charged all goes by it, and the admission policies of deploy/admission-queues.yaml refuse some
// of what it holds back.
//
// What waits and may not be in its queue counts for none. What has a node goes on as it was: it counts for the queue that
// it has counted for, so that nothing can be taken from it because a queue's settings have changed, and that a user
// changes nothing by giving it another queue's name. What is seen for the first time with a node, as after a restart, counts
// for the queue that it names where it is of a profile of this scheduler: something has let it start there.
func (b *Board) Claim(w Work) Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queues) == 0 {
		bar := w.unqueued()
		return Claim{Bar: bar, Confined: bar != (gang.Verdict{})}
	}
	c := Claim{Queue: b.nameFor(w)}
	if c.Queue == "" {
		if _, known := b.namespaces[w.Namespace]; !known && w.Ours && !w.Placed {
			c.Bar, c.Confined = unknownNamespace(w.Namespace), true
			return c
		}
		c.Bar = w.unqueued()
		c.Confined = c.Bar != (gang.Verdict{})
		if before, ok := b.pods[w.Pod]; ok && w.Placed && c.Confined {
			// It named one when it was started.
			c.Queue = before.queue
		}
		return c
	}
	b.misnamed.Delete(w.Pod)
	if c.Bar = b.check(c.Queue); c.Bar != (gang.Verdict{}) {
		if before, ok := b.pods[w.Pod]; ok && w.Placed && b.check(before.queue) == (gang.Verdict{}) {
			// It names another one than it has counted for.
			c.Queue = before.queue
			b.misnamed.Insert(w.Pod)
		}
		// It counts under a name that no queue has otherwise.
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

// NameFor is the queue that work names, or the default of its namespace. It says nothing of whether there is such a queue.
func (b *Board) NameFor(w Work) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nameFor(w)
}

func (b *Board) nameFor(w Work) string {
	if w.Named == "" && w.Ours {
		return b.namespaces[w.Namespace].queue
	}
	return w.Named
}

// HasDefault reports whether a namespace has a default queue.
func (b *Board) HasDefault(namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.namespaces[namespace].queue != ""
}

// unqueued is what work in no queue is told.
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

// confines says what a queue that work can be in has against some.
func (b *Board) confines(queue string, w *Work) gang.Verdict {
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

// IsBar reports whether a verdict on work is one of those with which Claim keeps it out of its queue, for good as far as is known.
func IsBar(v gang.Verdict) bool {
	switch v.Reason {
	case v1alpha1.ReasonQueueNotFound, v1alpha1.ReasonQueueNotLeaf, v1alpha1.ReasonQueueUnusable,
		v1alpha1.ReasonQueueNotAllowed, v1alpha1.ReasonPriorityAboveQueue, v1alpha1.ReasonQueueRequired:
		return true
	default:
		return false
	}
}

// accessesIn is the access to each queue, by index in a tree. No caller may change it.
func (b *Board) accessesIn(tree *fairshare.Tree) []*access {
	if b.accessOrder == nil {
		b.accessOrder = make([]*access, tree.Len())
		for i := range b.accessOrder {
			b.accessOrder[i] = b.accessTo(tree.Queue(int32(i)).Name)
		}
	}
	return b.accessOrder
}

func (b *Board) forgetAccesses() {
	clear(b.accesses)
	b.accessOrder = nil
}

// accessTo is the access to a queue.
func (b *Board) accessTo(queue string) *access {
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

// setStatus has the status of a queue say which work may use it.
func (a *access) setStatus(st *v1alpha1.QueueStatus) {
	st.NamespaceSelector, st.MaxPriority, st.PriorityClasses = a.shown.DeepCopy(), nil, slices.Clone(a.classes)
	if a.highest != nil {
		highest := *a.highest
		st.MaxPriority = &highest
	}
}

// SameAccess reports whether two statuses say the same of the access to the queue.
func SameAccess(a, b *v1alpha1.QueueStatus) bool {
	return apiequality.Semantic.DeepEqual(a.NamespaceSelector, b.NamespaceSelector) &&
		apiequality.Semantic.DeepEqual(a.MaxPriority, b.MaxPriority) && slices.Equal(a.PriorityClasses, b.PriorityClasses)
}

// SetNamespace takes in a namespace. It reports whether that changes the access to any queue, or its default.
func (b *Board) SetNamespace(ns *corev1.Namespace) (changed bool) {
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

// DeleteNamespace drops a namespace.
func (b *Board) DeleteNamespace(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.namespaces, name)
}

// SetClass takes in a PriorityClass. It reports whether priorities of any queue are bounded, which is to be looked at again then.
func (b *Board) SetClass(name string, value int32) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before, known := b.classes[name]; known && before == value {
		return false
	}
	b.classes[name] = value
	return b.reclassed()
}

// DeleteClass is SetClass for a PriorityClass that is gone.
func (b *Board) DeleteClass(name string) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.classes, name)
	return b.reclassed()
}

func (b *Board) reclassed() bool {
	b.forgetAccesses()
	// What the status of queues says of classes is part of a standing.
	b.counted++
	for _, q := range b.queues {
		if q.Spec.MaxPriorityClass != nil {
			return true
		}
	}
	return false
}

// isConfining reports whether some queue confines the access to it: a change of the tree may then matter to that.
func (b *Board) isConfining(changed ...*v1alpha1.Queue) bool {
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
