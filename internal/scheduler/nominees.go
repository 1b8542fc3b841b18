package scheduler

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// nominees knows the nodes for which some pending pod is nominated in the API, whoever did it, so that a
// decision need not ask the framework about every node. The zero value is ready to use, and safe for
// concurrent use.
type nominees struct {
	mu    sync.Mutex
	byPod map[types.UID]string
}

// see takes over what a pod says of itself.
func (n *nominees) see(pod *corev1.Pod) {
	node := pod.Status.NominatedNodeName
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		node = ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if node == "" {
		delete(n.byPod, pod.UID)
		return
	}
	if n.byPod == nil {
		n.byPod = make(map[types.UID]string)
	}
	n.byPod[pod.UID] = node
}

// forget drops a pod that has gone.
func (n *nominees) forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byPod, uid)
}

// nodes are the names of the nodes that pods without a seat are nominated for. To ask the framework about a node
// copies all its nominated pods, and of pods with a seat nothing is left to be known.
func (n *nominees) nodes(seats *seatMap) sets.Set[string] {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := sets.New[string]()
	for _, uid := range seats.without(maps.Keys(n.byPod)) {
		out.Insert(n.byPod[uid])
	}
	return out
}
