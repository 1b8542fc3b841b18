package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// nodeCache is the part of the scheduler's cache that updates snapshots.
type nodeCache interface {
	UpdateSnapshot(logger klog.Logger, s *internalcache.Snapshot) error
}

// describer returns the inputs of decisions about the given nodes.
type describer interface {
	State(nodes []fwk.NodeInfo) (snapshot.State, error)
}

// snapshots serves the inputs of decisions over HTTP. For each request, it copies the nodes and
// pods under the lock of the scheduler's cache, so that they are consistent. No scheduling cycle
// uses the copy.
type snapshots struct {
	cache   nodeCache
	shared  describer
	process string

	// taking makes requests wait for each other, because each request copies the whole cluster.
	taking sync.Mutex
}

// ServeHTTP implements http.Handler.
func (s *snapshots) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	document, err := s.take(klog.FromContext(r.Context()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, r, "application/json", document)
}

func (s *snapshots) take(logger klog.Logger) ([]byte, error) {
	s.taking.Lock()
	defer s.taking.Unlock()
	copied := internalcache.NewEmptySnapshot()
	if err := s.cache.UpdateSnapshot(logger, copied); err != nil {
		return nil, fmt.Errorf("take a snapshot of the scheduler's cache: %w", err)
	}
	nodes, err := copied.NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list the nodes of a snapshot: %w", err)
	}
	state, err := s.shared.State(nodes)
	if err != nil {
		return nil, fmt.Errorf("describe the cluster: %w", err)
	}
	state.Process = s.process
	document, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("write the snapshot as JSON: %w", err)
	}
	return append(document, '\n'), nil
}
