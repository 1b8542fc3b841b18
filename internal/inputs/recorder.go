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

// Options say how a Recorder records.
type Options struct {
	// Process is who decides, and Whole what is said of it at the beginning of each file.
	Process string
	Whole   decisionlog.Whole
	// Annotations are those that stay in what is redacted, beside those that always do.
	Annotations []string
	// Append has a line written after those that were appended before, and reports whether it is going to be. It does not wait.
	Append func(decisionlog.Line) bool
	// Unwritable is told of lines that could not be written, by the goroutine that writes; nil for nothing that is.
	Unwritable func(error)
}

// Recorder knows what decisions go by, and has it written line by line. Make one with [New]. It is safe for concurrent use.
type Recorder struct {
	process string
	append  func(decisionlog.Line) bool
	writer  *writer

	mu sync.Mutex
	// begun is true once informers have told of all that there was.
	begun bool
	// number counts the lines.
	number uint64
	// last is what the last line said beside objects.
	last decisionlog.Inputs
	// nodes are those of the snapshot that was seen last.
	nodes map[string]seenNode
	// listed are the nodes of that snapshot in its order.
	listed []listedNode
	// round counts the looks at nodes.
	round uint64
	// The pods by name: as the last decision had them where it had others than are known otherwise, on the nodes of that snapshot,
	// without a node as the scheduler has heard, and finished. Where a pod is in more than one of them, the first counts.
	shown, placed, pending, finished map[types.NamespacedName]*corev1.Pod
	// heard is what the scheduler has heard of pods since the last look, in order.
	heard []hearing
	// written are the pods as they stand in lines, and touched those that may have changed since.
	written map[types.NamespacedName]*corev1.Pod
	touched map[types.NamespacedName]bool
	// changed are all other objects that have come, changed or gone since the last line, by resource; nil for one that has gone.
	changed map[string]map[types.NamespacedName]any
	// named are those of them that lines have, by resource.
	named map[string]sets.Set[types.NamespacedName]
}

// hearing is what the scheduler has heard of a pod.
type hearing struct {
	pod    *corev1.Pod
	exists bool
}

// manyHeard is how much may be heard during one decision.
const manyHeard = 10_000

// listedNode is a node in a snapshot. The framework keeps a node's NodeInfo where it is and counts its generation up.
type listedNode struct {
	info       fwk.NodeInfo
	generation int64
}

// seenNode is a node as it was seen last.
type seenNode struct {
	generation int64
	node       *corev1.Node
	pods       []*corev1.Pod
	// round is the number of the look at which it was there.
	round uint64
}

// New makes a Recorder that has heard of nothing.
func New(o Options) *Recorder {
	return &Recorder{
		process: o.Process, append: o.Append, writer: newWriter(o),
		nodes: make(map[string]seenNode), placed: make(map[types.NamespacedName]*corev1.Pod), pending: make(map[types.NamespacedName]*corev1.Pod),
		finished: make(map[types.NamespacedName]*corev1.Pod), shown: make(map[types.NamespacedName]*corev1.Pod), written: make(map[types.NamespacedName]*corev1.Pod),
		touched: make(map[types.NamespacedName]bool), changed: make(map[string]map[types.NamespacedName]any),
		named: make(map[string]sets.Set[types.NamespacedName]),
	}
}

// Informer is what a Recorder needs of an informer, of whatever library.
type Informer interface {
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

// Follow has the Recorder hear of the objects of a resource other than pods, as inventory.NameOf calls it. What it returns says
// whether it has heard of all that there are by now.
func (r *Recorder) Follow(resource string, informer Informer) (cache.InformerSynced, error) {
	return follow(informer, func(obj any, exists bool) { r.tell(resource, obj, exists) })
}

// FollowFinished has the Recorder hear of pods that have finished, by an informer of those that belong to groups.
func (r *Recorder) FollowFinished(informer Informer) (cache.InformerSynced, error) {
	return follow(informer, r.tellFinished)
}

func follow(informer Informer, tell func(obj any, exists bool)) (cache.InformerSynced, error) {
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell(obj, true) },
		UpdateFunc: func(before, obj any) {
			if isAnother(before, obj) {
				// That the one with its name went was missed.
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

// isAnother reports whether an object is not the one that had its name before.
func isAnother(before, now any) bool {
	a, err := meta.Accessor(before)
	if err != nil {
		return false
	}
	b, err := meta.Accessor(now)
	return err == nil && a.GetUID() != b.GetUID()
}

// Begin has the Recorder write from now on: informers, and the scheduler, have told of all that there is.
func (r *Recorder) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
}

// FollowRoots has the Recorder write which kinds of objects say which pods belong together. Known and Forgotten tell it of those
// objects. Call it before Begin.
func (r *Recorder) FollowRoots(kinds []decisionlog.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writer.whole.Roots = append(make([]decisionlog.Root, 0, len(kinds)), kinds...)
}

// Known takes note of an object that says which pods belong together.
func (r *Recorder) Known(resource schema.GroupVersionResource, u *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(inventory.RootName(resource), types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}, u)
}

// Forgotten takes note that such an object counts no more.
func (r *Recorder) Forgotten(resource schema.GroupVersionResource, namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(inventory.RootName(resource), types.NamespacedName{Namespace: namespace, Name: name}, nil)
}

// tell takes note of an object. Nodes are taken from snapshots.
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

// note takes note of an object as it is, or with nil that it has gone. Of one that no line has, none has to say that.
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

// Heard takes note of a pod that counts for the scheduler as it is from the next look on, or counts no more.
func (r *Recorder) Heard(pod *corev1.Pod, exists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard = append(r.heard, hearing{pod, exists}); !r.begun || len(r.heard) >= manyHeard {
		r.takeHeard()
	}
}

// Looks is called by a cycle that is about to look at how things stand: what is heard after that is no part of its decision.
func (r *Recorder) Looks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeHeard()
}

// takeHeard takes over what has been heard of pods, as far as they have no node.
func (r *Recorder) takeHeard() {
	for _, h := range r.heard {
		r.put(r.pending, h.pod, h.exists && h.pod.Spec.NodeName == "")
	}
	clear(r.heard)
	r.heard = r.heard[:0]
}

// tellFinished takes note of a member that has finished. Of other pods the informer has the names only.
func (r *Recorder) tellFinished(obj any, exists bool) {
	if pod, ok := obj.(*corev1.Pod); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.put(r.finished, pod, exists && pod.Status.Phase != "")
	}
}

// put has a pod in a map, or takes it out.
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
		// No line knows of it, and none has to.
		delete(r.touched, key)
		return
	}
	r.touched[key] = true
}

// Seen has what a decision went by written, as far as it has changed, and returns the number of
// the line that has it. Where no line can be appended it returns 0, and what has changed is in the next one. So it does before
// Begin.
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
		d.head.Promised = append(d.head.Promised, decisionlog.Promise{UID: string(p.Pod.UID), Node: p.Node})
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

// wrote takes note of a change that a line has.
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

// show takes over the pods without a node that a decision had.
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
			// It may have a node in the snapshot, which it is about to lose.
			show(pod)
		}
	}
	for _, p := range seen.Promised {
		if r.podOf(keyOf(p.Pod)) == nil {
			show(p.Pod)
		}
	}
}

// look compares the nodes of a snapshot, and the pods on them, with those that were seen last.
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

// lookAtAll is look where nodes have come or gone, or stand in another order.
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

// lookAt takes note of a node that has changed.
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

// leave takes pods from where they were seen, unless they have been seen elsewhere since.
func (r *Recorder) leave(pods []*corev1.Pod) {
	for _, pod := range pods {
		if r.placed[keyOf(pod)] == pod {
			r.put(r.placed, pod, false)
		}
	}
}

// podOf is a pod as decisions see it; nil where there is none.
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
