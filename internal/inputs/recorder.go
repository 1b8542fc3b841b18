package inputs

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// Options are the settings of a Recorder.
type Options struct {
	// Process names the scheduler process.
	Process string
	// Whole describes the process. Lines with the whole cluster contain it.
	Whole decisionlog.Whole
	// Annotations lists the annotations that redaction keeps in addition to the default ones.
	Annotations []string
	// Append adds a line to the queue of the log and returns false if the queue is full. It must
	// not block.
	Append func(decisionlog.Line) bool
	// Unwritable is called with the error of each line that could not be written, in the goroutine
	// of the log. It may be nil.
	Unwritable func(error)
}

// Recorder records the inputs of decisions as lines of the decision log. Use [New] to create one.
// It is safe for concurrent use.
type Recorder struct {
	process string
	append  func(decisionlog.Line) bool
	writer  *writer

	mu sync.Mutex
	// begun is true after Begin. Before Begin, nothing is written.
	begun bool
	// number is the number of the last queued line.
	number uint64
	// last is the last queued line, without its objects.
	last decisionlog.Inputs
	// nodes maps a name to the node's state in the last snapshot.
	nodes map[string]seenNode
	// listed holds the nodes of the last snapshot, in the order of the snapshot.
	listed []listedNode
	// round is the number of snapshots whose nodes were all compared.
	round uint64
	// These four maps hold the states of pods by name. If several maps hold a pod, its state is in
	// the first of these maps:
	//
	//   - shown: pods in the state that the last decision saw, if the maps below lack it
	//   - placed: pods on the nodes of the last snapshot
	//   - pending: the scheduler's pods without a node
	//   - finished: finished pods
	shown, placed, pending, finished map[types.NamespacedName]*corev1.Pod
	// heard holds the changes of pods that the scheduler has received since the last call of Looks,
	// in order.
	heard []hearing
	// written holds each pod in the state that the log describes.
	written map[types.NamespacedName]*corev1.Pod
	// touched has the names of pods that may have changed since the last line.
	touched map[types.NamespacedName]bool
	// changed holds the objects other than pods that changed since the last line, by resource and
	// name. The value of a deleted object is nil.
	changed map[string]map[types.NamespacedName]any
	// named maps a resource other than pods to the names of the objects in the log.
	named map[string]sets.Set[types.NamespacedName]
}

// hearing is one change of a pod that the scheduler's event handlers received. exists is false if
// the pod was deleted.
type hearing struct {
	pod    *corev1.Pod
	exists bool
}

// manyHeard is the maximum length of heard. At that length, the Recorder applies the changes early,
// so that heard does not grow during a long decision.
const manyHeard = 10_000

// listedNode identifies a node in a snapshot. The framework changes a NodeInfo in place and
// increments its generation, so both are compared.
type listedNode struct {
	info       fwk.NodeInfo
	generation int64
}

// seenNode is the state of a node in the last snapshot.
type seenNode struct {
	generation int64
	node       *corev1.Node
	pods       []*corev1.Pod
	// round is the value of Recorder.round when the node was last seen.
	round uint64
}

// New returns an empty Recorder.
func New(o Options) *Recorder {
	return &Recorder{
		process: o.Process, append: o.Append, writer: newWriter(o),
		nodes: make(map[string]seenNode), placed: make(map[types.NamespacedName]*corev1.Pod), pending: make(map[types.NamespacedName]*corev1.Pod),
		finished: make(map[types.NamespacedName]*corev1.Pod), shown: make(map[types.NamespacedName]*corev1.Pod), written: make(map[types.NamespacedName]*corev1.Pod),
		touched: make(map[types.NamespacedName]bool), changed: make(map[string]map[types.NamespacedName]any),
		named: make(map[string]sets.Set[types.NamespacedName]),
	}
}

// Informer is the part of an informer that a Recorder needs. The informers of client-go and of
// controller-runtime implement it.
type Informer interface {
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

// Follow subscribes the Recorder to the objects of a resource other than pods. resource is the name
// that inventory.NameOf returns. The returned function reports whether the Recorder has received
// all existing objects.
func (r *Recorder) Follow(resource string, informer Informer) (cache.InformerSynced, error) {
	return follow(informer, func(obj any, exists bool) { r.tell(resource, obj, exists) })
}

// FollowFinished subscribes the Recorder to finished pods of groups. The informer must have these
// pods in full.
func (r *Recorder) FollowFinished(informer Informer) (cache.InformerSynced, error) {
	return follow(informer, r.tellFinished)
}

func follow(informer Informer, tell func(obj any, exists bool)) (cache.InformerSynced, error) {
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell(obj, true) },
		UpdateFunc: func(before, obj any) {
			if isAnother(before, obj) {
				// A new object has the name of a deleted one, and the informer has missed the
				// deletion. So report the deletion first.
				tell(before, false)
			}
			tell(obj, true)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			tell(obj, false)
		},
	})
	if err != nil {
		return nil, err
	}
	return handler.HasSynced, nil
}

// isAnother reports whether two objects of the same name have different UIDs.
func isAnother(before, now any) bool {
	a, err := meta.Accessor(before)
	if err != nil {
		return false
	}
	b, err := meta.Accessor(now)
	return err == nil && a.GetUID() != b.GetUID()
}

// Begin starts the recording. Call it when the Recorder has received all existing objects from the
// informers and the scheduler.
func (r *Recorder) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
}

// FollowRoots sets the kinds of objects that define which pods belong together, such as Jobs. The
// scheduler passes these objects to Known and Forgotten. Call FollowRoots before Begin.
func (r *Recorder) FollowRoots(kinds []decisionlog.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writer.whole.Roots = append(make([]decisionlog.Root, 0, len(kinds)), kinds...)
}

// Known records the state of an object that defines which pods belong together, such as a Job.
func (r *Recorder) Known(resource schema.GroupVersionResource, u *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(inventory.RootName(resource), types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}, u)
}

// Forgotten records that an object of Known was deleted, or no longer affects groups.
func (r *Recorder) Forgotten(resource schema.GroupVersionResource, namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(inventory.RootName(resource), types.NamespacedName{Namespace: namespace, Name: name}, nil)
}

// tell records the state of an object, or its deletion. It ignores nodes, because they come from
// snapshots.
func (r *Recorder) tell(resource string, obj any, exists bool) {
	m, err := meta.Accessor(obj)
	if err != nil || resource == inventory.Nodes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !exists {
		obj = nil
	}
	r.note(resource, types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, obj)
}

// note records the state of an object, or its deletion if obj is nil. If an object is deleted
// before any line contains it, note drops the object.
func (r *Recorder) note(resource string, key types.NamespacedName, obj any) {
	if obj == nil && !r.named[resource].Has(key) {
		delete(r.changed[resource], key)
		return
	}
	if r.changed[resource] == nil {
		r.changed[resource] = make(map[types.NamespacedName]any)
	}
	r.changed[resource][key] = obj
}

// Heard records a change of a pod, or its deletion if exists is false. Snapshots taken after the
// call include the change.
func (r *Recorder) Heard(pod *corev1.Pod, exists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard = append(r.heard, hearing{pod, exists}); !r.begun || len(r.heard) >= manyHeard {
		r.takeHeard()
	}
}

// Looks marks the moment when a scheduling cycle takes its snapshot. Changes of pods after this
// call are not inputs of the cycle's decision.
func (r *Recorder) Looks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeHeard()
}

func (r *Recorder) takeHeard() {
	for _, h := range r.heard {
		r.put(r.pending, h.pod, h.exists && h.pod.Spec.NodeName == "")
	}
	clear(r.heard)
	r.heard = r.heard[:0]
}

// tellFinished records a finished member of a group. For pods without a group, the informer has
// only the name, so tellFinished ignores pods without a status.
func (r *Recorder) tellFinished(obj any, exists bool) {
	if pod, ok := obj.(*corev1.Pod); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.put(r.finished, pod, exists && pod.Status.Phase != "")
	}
}

// put changes the entry of a pod in the map among. It adds the pod if there is true. Otherwise it
// removes the pod, if the map has it with the pod's UID. It also marks the pod as touched, so that
// the next line contains the change.
func (r *Recorder) put(among map[types.NamespacedName]*corev1.Pod, pod *corev1.Pod, there bool) {
	key := keyOf(pod)
	switch {
	case there:
		among[key] = pod
	case among[key] == nil || among[key].UID != pod.UID:
		return
	default:
		delete(among, key)
	}
	if r.written[key] == nil && r.podOf(key) == nil {
		// No line of the log contains the pod yet, so the next line must not report its deletion.
		delete(r.touched, key)
		return
	}
	r.touched[key] = true
}

// Seen queues a line with all changes since the last line, and returns the number of the line that
// completes the decision's inputs. If nothing has changed, Seen queues no line and returns the
// number of the last line.
//
// Seen returns 0 before Begin. It also returns 0 if the queue of the log is full; the next line
// then contains the changes.
func (r *Recorder) Seen(seen *Seen) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun {
		return 0
	}
	r.look(seen.Nodes)
	r.show(seen)
	d := &delta{writer: r.writer, head: decisionlog.Inputs{Time: seen.Now.UTC(), Process: r.process, From: r.number, Number: r.number + 1}}
	for _, p := range seen.Promised {
		d.head.Promised = append(d.head.Promised, decisionlog.Reservation{UID: string(p.Pod.UID), Node: p.Node})
	}
	for _, uid := range seen.Leaving {
		d.head.Leaving = append(d.head.Leaving, string(uid))
	}
	d.collect(r)
	if r.number > 0 && len(d.changes) == 0 && slices.Equal(d.head.Promised, r.last.Promised) && slices.Equal(d.head.Leaving, r.last.Leaving) {
		return r.number
	}
	if !r.append(d) {
		return 0
	}
	for _, c := range d.changes {
		r.wrote(c)
	}
	clear(r.touched)
	clear(r.changed)
	r.number, r.last = d.head.Number, d.head
	return r.number
}

// wrote updates the Recorder's record of the log's content after a change was queued.
func (r *Recorder) wrote(c change) {
	if pod, ok := c.object.(*corev1.Pod); ok {
		r.written[c.key] = pod
		return
	}
	switch {
	case c.resource == inventory.Pods:
		delete(r.written, c.key)
	case c.object == nil:
		r.named[c.resource].Delete(c.key)
	case r.named[c.resource] == nil:
		r.named[c.resource] = sets.New(c.key)
	default:
		r.named[c.resource].Insert(c.key)
	}
}

// show puts pods of the decision into shown if the other maps lack them or have them in another
// state.
func (r *Recorder) show(seen *Seen) {
	for key := range r.shown {
		r.touched[key] = true
	}
	clear(r.shown)
	show := func(pod *corev1.Pod) {
		r.shown[keyOf(pod)] = pod
		r.touched[keyOf(pod)] = true
	}
	for _, pod := range seen.Pods {
		if r.podOf(keyOf(pod)) != pod {
			// The snapshot may still have the pod on a node that the scheduler has just released.
			show(pod)
		}
	}
	for _, p := range seen.Promised {
		if r.podOf(keyOf(p.Pod)) == nil {
			show(p.Pod)
		}
	}
}

// look compares the nodes of a snapshot, and the pods on them, with the last snapshot.
func (r *Recorder) look(infos []fwk.NodeInfo) {
	same := slices.EqualFunc(infos, r.listed, func(info fwk.NodeInfo, listed listedNode) bool { return info == listed.info })
	if !same {
		r.lookAtAll(infos)
		return
	}
	for i, info := range infos {
		if r.listed[i].generation == info.GetGeneration() {
			continue
		}
		known := r.nodes[info.Node().Name]
		r.lookAt(info, &known)
		r.nodes[info.Node().Name] = known
		r.listed[i].generation = info.GetGeneration()
	}
}

// lookAtAll compares a snapshot with the last one if their lists of nodes differ.
func (r *Recorder) lookAtAll(infos []fwk.NodeInfo) {
	r.listed = make([]listedNode, len(infos))
	for i, info := range infos {
		r.listed[i] = listedNode{info: info, generation: info.GetGeneration()}
	}
	r.round++
	round := r.round
	for _, info := range infos {
		node := info.Node()
		known, ok := r.nodes[node.Name]
		if known.round = round; !ok || known.generation != info.GetGeneration() {
			r.lookAt(info, &known)
		}
		r.nodes[node.Name] = known
	}
	if len(r.nodes) == len(infos) {
		return
	}
	for name, known := range r.nodes {
		if known.round != round {
			r.leave(known.pods)
			delete(r.nodes, name)
			r.note(inventory.Nodes, types.NamespacedName{Name: name}, nil)
		}
	}
}

// lookAt records the state of a node that has changed, and of the pods on it.
func (r *Recorder) lookAt(info fwk.NodeInfo, known *seenNode) {
	r.leave(known.pods)
	if known.node != info.Node() {
		known.node = info.Node()
		r.note(inventory.Nodes, types.NamespacedName{Name: known.node.Name}, known.node)
	}
	known.generation = info.GetGeneration()
	known.pods = make([]*corev1.Pod, 0, len(info.GetPods()))
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		known.pods = append(known.pods, pod)
		r.put(r.placed, pod, true)
	}
}

// leave removes pods from placed, except pods that another node has now.
func (r *Recorder) leave(pods []*corev1.Pod) {
	for _, pod := range pods {
		if r.placed[keyOf(pod)] == pod {
			r.put(r.placed, pod, false)
		}
	}
}

// podOf returns the pod in the state that decisions see, or nil if it does not exist.
func (r *Recorder) podOf(key types.NamespacedName) *corev1.Pod {
	for _, among := range []map[types.NamespacedName]*corev1.Pod{r.shown, r.placed, r.pending, r.finished} {
		if pod := among[key]; pod != nil {
			return pod
		}
	}
	return nil
}

func keyOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
