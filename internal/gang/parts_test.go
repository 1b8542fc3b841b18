package gang

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// needs is a Roles for pods with names of the form ROLE-NUMBER: it maps roles to their needs. A gang
// whose roles need no members has the minCount 1.
type needs map[string]int

func (n needs) MinCount(types.NamespacedName) (sum int, derived bool) {
	for _, need := range n {
		sum += need
	}
	return max(sum, 1), len(n) > 0
}

func (n needs) RoleOf(pod *corev1.Pod) (string, int) {
	role, _, _ := strings.Cut(pod.Name, "-")
	if _, ok := n[role]; !ok {
		return "", 0
	}
	return role, n[role]
}

// TestPartsOf checks the number of members that a gang of roles lacks, and the description.
func TestPartsOf(t *testing.T) {
	t.Parallel()
	ray := needs{"head": 1, "gpu": 2}
	for name, tt := range map[string]struct {
		roles    needs
		minCount int
		placed   string
		pending  string
		want     int
		short    string
	}{
		"whole":                                      {roles: ray, minCount: 3, placed: "head-0 gpu-0 gpu-1"},
		"surplus does not replace":                   {roles: ray, minCount: 3, placed: "gpu-0 gpu-1 gpu-2", pending: "head-0", want: 1, short: "head has 0 of 1"},
		"a role without any pod":                     {roles: ray, minCount: 3, placed: "gpu-0 gpu-1 gpu-2", want: 1, short: "roles without any pod need 1"},
		"two roles":                                  {roles: ray, minCount: 3, placed: "gpu-0", pending: "head-0", want: 2, short: "gpu has 1 of 2, head has 0 of 1"},
		"one role":                                   {roles: needs{"job": 3}, minCount: 3, placed: "job-0 job-1", want: 1},
		"minCount of another size":                   {roles: ray, minCount: 2, placed: "gpu-0 gpu-1"},
		"a member of an unknown role":                {roles: ray, minCount: 3, placed: "gpu-0 gpu-1 other-0"},
		"a gang that is not derived":                 {minCount: 3, placed: "a-0 b-0", want: 1},
		"a group that is no gang":                    {roles: ray, placed: "gpu-0"},
		"optional members do not replace":            {roles: needs{"head": 1, "spare": 0}, minCount: 1, placed: "spare-0 spare-1", pending: "head-0", want: 1, short: "head has 0 of 1"},
		"optional members of a whole gang":           {roles: needs{"head": 1, "spare": 0}, minCount: 1, placed: "head-0 spare-0"},
		"all members are optional":                   {roles: needs{"spare": 0}, minCount: 1, placed: "spare-0 spare-1"},
		"all members are optional, of several roles": {roles: needs{"spare": 0, "more": 0}, minCount: 1, placed: "spare-0", pending: "more-0"},
		"all members are optional, none is placed":   {roles: needs{"spare": 0}, minCount: 1, pending: "spare-0", want: 1},
		"a role of which none is used":               {roles: needs{"head": 1, "gpu": 2, "spare": 0}, minCount: 3, placed: "spare-0 gpu-0 gpu-1", want: 1, short: "roles without any pod need 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := func(names string) (out []*corev1.Pod) {
				for _, name := range strings.Fields(names) {
					out = append(out, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
				}
				return out
			}
			m := Members{Assigned: pods(tt.placed), Pending: pods(tt.pending)}
			g := &Group{MinCount: tt.minCount}
			p := PartsOf(g, tt.roles, &m)
			placed := p.Count(m.Assigned)
			if got := p.Lacks(tt.minCount, placed); got != tt.want {
				t.Errorf("lacks %d, want %d", got, tt.want)
			}
			if got := p.Shortage(placed); got != tt.short {
				t.Errorf("shortage %q, want %q", got, tt.short)
			}
			if got := IsPlaced(g, tt.roles, &m); got != (tt.want == 0) {
				t.Errorf("placed: %v, want %v", got, tt.want == 0)
			}
		})
	}
}

// TestSucceededMemberOfUnknownRole checks a gang whose head succeeded and was deleted before its
// role was known. The gang is not degraded, because the role of that member is unknown.
func TestSucceededMemberOfUnknownRole(t *testing.T) {
	t.Parallel()
	workers := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0"}}, {ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}}}
	p := PartsOf(&Group{MinCount: 3}, needs{"head": 1, "gpu": 2}, &Members{Assigned: workers})
	for unknown, want := range []int{1, 0, 0} {
		if got := p.Lacks(3, map[string]int{"gpu": 2, "": unknown}); got != want {
			t.Errorf("with %d members of unknown roles, it lacks %d, want %d", unknown, got, want)
		}
	}
}

// TestExtra checks the parts of a tree that need members although the tree is whole without them.
func TestExtra(t *testing.T) {
	t.Parallel()
	tree := &Tree{Key: TreeKey("ns", "r"), Need: 1, Parts: []*Tree{
		{Key: types.NamespacedName{Namespace: "ns", Name: "a"}, Need: 2},
		{Key: types.NamespacedName{Namespace: "ns", Name: "b"}, Need: 3},
	}}
	p := PartsOf(&Group{Tree: tree, MinCount: 2}, needs{}, &Members{})
	for name, tt := range map[string]struct{ placed, want map[string]int }{
		"both are whole":     {map[string]int{"a": 2, "b": 3}, map[string]int{}},
		"one has no members": {map[string]int{"a": 2}, map[string]int{}},
		"one has too few":    {map[string]int{"a": 3, "b": 1}, map[string]int{"b": 2}},
		"no part is whole":   {map[string]int{"a": 1, "b": 1}, nil},
	} {
		if got := p.Extra(tt.placed); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if got := (*Parts)(nil).Extra(map[string]int{"": 1}); got != nil {
		t.Errorf("a gang without parts has %v", got)
	}
}
