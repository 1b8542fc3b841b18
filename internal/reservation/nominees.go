package reservation

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Nominees records the pending pods that any component has nominated in the API, and their nodes. A
// decision asks the framework about these nodes only. The zero value is ready to use, and safe for
// concurrent use.
type Nominees struct {
	mu    sync.Mutex
	byPod map[types.UID]string
	// inflated holds the pods whose own priority is above the priority that counts for them.
	inflated map[types.UID]string
}

// See records the nomination in a pod's status. A nomination is inflated if the framework ranks the
// pod above the priority that counts for it.
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

// Forget drops a pod that is gone.
func (n *Nominees) Forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byPod, uid)
	delete(n.inflated, uid)
}

// Nodes returns the nodes that pods without a reservation are nominated for. Asking the framework
// about a node copies all its nominated pods, and reservations cover the other pods.
func (n *Nominees) Nodes(book *Book) sets.Set[string] {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := sets.New[string]()
	for _, uid := range book.Without(maps.Keys(n.byPod)) {
		out.Insert(n.byPod[uid])
	}
	return out
}

// Inflated returns the node of each pod with an inflated nomination; see [Nominees.See].
func (n *Nominees) Inflated() map[types.UID]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.inflated) == 0 {
		return nil
	}
	return maps.Clone(n.inflated)
}
