package snapshot

import (
	"slices"
	"testing"

	"k8s.io/klog/v2"
)

// TestRequiredDomain checks the domains of nodes and members. Nodes that do not exist have no
// domain.
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

// TestPreferredLevels checks that two racks with the same name in different blocks are different
// domains. The same applies to blocks in different zones.
func TestPreferredLevels(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for name, labels := range map[string]map[string]string{
		"a-1-1": {"zone": "a", "block": "1", "rack": "1"},
		"a-1-2": {"zone": "a", "block": "1", "rack": "2"},
		"a-2-1": {"zone": "a", "block": "2", "rack": "1"},
		"b-1-1": {"zone": "b", "block": "1", "rack": "1"},
		"b-3-4": {"zone": "b", "block": "3", "rack": "4"},
		"n-1":   {"block": "1", "rack": "1"},
		"n-n":   {"zone": "b"},
	} {
		n := node(name, "4")
		n.Labels = labels
		s.cache.AddNode(klog.Background(), n)
	}
	for name, tt := range map[string]struct {
		keys, members []string
		// wantOf has the expected domains of the nodes at each level.
		wantOf    map[string][]string
		wantHomes [][]string
	}{
		"one level": {
			keys: []string{"rack"}, members: []string{"a-1-1", "b-1-1"},
			wantOf: map[string][]string{
				"a-1-1": {"1"}, "a-1-2": {"2"}, "a-2-1": {"1"}, "b-1-1": {"1"}, "b-3-4": {"4"}, "n-1": {"1"}, "n-n": {""},
			},
			wantHomes: [][]string{{"1"}},
		},
		"two levels": {
			keys: []string{"rack", "zone"}, members: []string{"a-1-1", "n-n", "b-1-1"},
			wantOf: map[string][]string{
				"a-1-1": {"a/1", "a"}, "a-1-2": {"2", "a"}, "a-2-1": {"a/1", "a"}, "b-1-1": {"b/1", "b"}, "b-3-4": {"4", "b"},
				"n-1": {"(none)/1", ""}, "n-n": {"", "b"},
			},
			wantHomes: [][]string{{"", "a/1", "b/1"}, {"a", "b"}},
		},
		"three levels": {
			keys: []string{"rack", "block", "zone"},
			wantOf: map[string][]string{
				"a-1-1": {"a/1/1", "a/1", "a"}, "a-1-2": {"2", "a/1", "a"}, "a-2-1": {"a/2/1", "2", "a"}, "b-1-1": {"b/1/1", "b/1", "b"},
				"b-3-4": {"4", "3", "b"}, "n-1": {"(none)/1/1", "(none)/1", ""}, "n-n": {"", "", "b"},
			},
			wantHomes: [][]string{nil, nil, nil},
		},
		"a node that does not exist": {keys: []string{"rack", "zone"}, members: []string{"n-9"}, wantHomes: [][]string{{""}, {""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := s.view()
			got := v.PreferredLevels(tt.keys, tt.members)
			for i, level := range got {
				if level.Key != tt.keys[i] || !slices.Equal(level.Homes, tt.wantHomes[i]) {
					t.Errorf("%s: homes %q, want %q", level.Key, level.Homes, tt.wantHomes[i])
				}
				for slot := range v.Cluster.Nodes {
					name := v.Cluster.Nodes[slot].Name
					if want, known := tt.wantOf[name]; known && level.Of[slot] != want[i] {
						t.Errorf("node %s is in %s %q, want %q", name, level.Key, level.Of[slot], want[i])
					}
				}
			}
		})
	}
}
