package scheduler

import (
	"sync"

	"github.com/reprieve-dev/reprieve/internal/engine"
)

// placements holds the state of group members that the API server does not show yet. For example, a
// member may be assumed on a node, returning to the queue, or about to terminate. placements is
// safe for concurrent use.
type placements struct {
	*clusterIndex
	// gangs has the records of groups.
	gangs *engine.Gangs
	// leaving has the pods that will terminate, although their objects do not show it yet.
	leaving leavingPods
	// records holds the pods in their scheduling attempts, and the assumed pods.
	records *engine.Pods
	// rejecting is held while pods are rejected at Permit, so that no pod is rejected twice.
	rejecting sync.Mutex
}
