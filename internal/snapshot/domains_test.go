package snapshot

import (
	"slices"
	"testing"

	"k8s.io/klog/v2"
)

// TestRequiredDomain reads the domains of nodes and members from labels. Nodes that do not exist
// have none.
func TestRequiredDomain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for name, rack := range map[string]string{"node-0": "a", "node-1": "b", "node-2": ""} {
		n := node(name, "4")
		n.Labels = map[string]string{"rack": rack}
		s.cache.AddNode(klog.Background(), n)
	}
	for name, c := range map[string]struct {
		key       string
		members   []string
		wantOf    map[string]string
		wantHomes []string
	}{
		"no member has a node":       {"rack", nil, map[string]string{"node-0": "a", "node-1": "b", "node-2": ""}, nil},
		"one domain":                 {"rack", []string{"node-1", "node-1"}, map[string]string{"node-0": "a", "node-1": "b", "node-2": ""}, []string{"b"}},
		"two domains":                {"rack", []string{"node-1", "node-0"}, map[string]string{"node-0": "a", "node-1": "b", "node-2": ""}, []string{"a", "b"}},
		"a node without a value":     {"rack", []string{"node-2"}, map[string]string{"node-0": "a", "node-1": "b", "node-2": ""}, []string{""}},
		"a node that does not exist": {"rack", []string{"node-9", "node-0"}, map[string]string{"node-0": "a", "node-1": "b", "node-2": ""}, []string{"a"}},
		"no node exists":             {"rack", []string{"node-9"}, map[string]string{"node-0": "a", "node-1": "b", "node-2": ""}, []string{""}},
		"a key that no node has":     {"zone", nil, map[string]string{"node-0": "", "node-1": "", "node-2": ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := s.view()
			got := v.RequiredDomain(c.key, c.members)
			if got.Key != c.key || !slices.Equal(got.Homes, c.wantHomes) {
				t.Errorf("got %+v, want the homes %v", got, c.wantHomes)
			}
			for slot := range v.Cluster.Nodes {
				if name := v.Cluster.Nodes[slot].Name; got.Of[slot] != c.wantOf[name] {
					t.Errorf("node %s is in %q, want %q", name, got.Of[slot], c.wantOf[name])
				}
			}
		})
	}
}
