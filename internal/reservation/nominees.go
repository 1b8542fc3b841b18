package reservation

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Nominees knows the nodes for which some pending pod is nominated in the API, by whichever component, so that a
// decision need not ask the framework about every node. The zero value is ready to use, and safe for concurrent use.
type Nominees struct {
	mu    sync.Mutex
	byPod map[types.UID]string
	// inflated are those whose own priority is above the one that counts for them.
	inflated map[types.UID]string
}

// See takes over what a pod says of itself. An inflated nomination is one that the framework takes for more than it is.
func (n *Nominees) See(pod *corev1.Pod, isInflated func(*corev1.Pod) bool) {
	node := pod.Status.NominatedNodeName
	if node == "" || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		n.Forget(pod.UID)
		return
	}
	inflated := isInflated(pod)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byPod == nil {
		n.byPod, n.inflated = make(map[types.UID]string), make(map[types.UID]string)
	}
	n.byPod[pod.UID] = node
	if inflated {
		n.inflated[pod.UID] = node
	} else {
		delete(n.inflated, pod.UID)
	}
}

// Forget drops a pod that has gone.
func (n *Nominees) Forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byPod, uid)
	delete(n.inflated, uid)
}

// Nodes are the names of the nodes that pods without a reservation are nominated for. To ask the framework about a node
// copies all its nominated pods, and of pods with a reservation nothing is left to be known.
func (n *Nominees) Nodes(book *Book) sets.Set[string] {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := sets.New[string]()
	for _, uid := range book.Without(maps.Keys(n.byPod)) {
		out.Insert(n.byPod[uid])
	}
	return out
}

// Inflated are the nominations that the framework takes for more than they are, by pod.
func (n *Nominees) Inflated() map[types.UID]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.inflated) == 0 {
		return nil
	}
	return maps.Clone(n.inflated)
}
