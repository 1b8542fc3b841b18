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

// describer returns the inputs of decisions for the nodes of a snapshot.
type describer interface {
	State(nodes []fwk.NodeInfo) (snapshot.State, error)
}

// snapshots serves the inputs of decisions. Nodes and pods are consistent with each other, because
// they are copied under the lock of the scheduler's cache, as for a scheduling cycle. No cycle uses
// the copy.
type snapshots struct {
	cache   nodeCache
	shared  describer
	process string

	// taking serializes snapshots, because each copies the whole cluster.
	taking sync.Mutex
}

// ServeHTTP is part of http.Handler.
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
