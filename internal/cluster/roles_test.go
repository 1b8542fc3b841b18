package cluster

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// roles is a Derived for pods with names of the form ROLE-NUMBER. needed maps each role to the
// number of members that the gang needs.
type roles struct {
	Underived
	needed map[string]int
}

// RoleOf is part of Derived.
func (r roles) RoleOf(pod *corev1.Pod) (string, int) {
	role, _, _ := strings.Cut(pod.Name, "-")
	return role, r.needed[role]
}

func TestNeededFirst(t *testing.T) {
	t.Parallel()
	ray := map[string]int{"head": 1, "gpu": 2}
	tests := map[string]struct {
		needed          map[string]int
		placed, waiting []string
		want            []string
		// wantNeeded is the number of waiting members that the gang needs by their roles.
		wantNeeded int
	}{
		"a head that has gone from workers past their minimum": {
			needed: ray, placed: []string{"gpu-0", "gpu-1", "gpu-2"}, waiting: []string{"gpu-3", "head-0"}, want: []string{"head-0", "gpu-3"}, wantNeeded: 1,
		},
		"a head that is younger than workers past their minimum": {
			needed: ray, waiting: []string{"gpu-0", "gpu-1", "gpu-2", "head-0"}, want: []string{"gpu-0", "gpu-1", "head-0", "gpu-2"}, wantNeeded: 3,
		},
		"two groups of workers": {
			needed:  map[string]int{"head": 1, "a": 1, "b": 1},
			waiting: []string{"a-0", "a-1", "b-0", "b-1", "head-0"}, want: []string{"a-0", "b-0", "head-0", "a-1", "b-1"}, wantNeeded: 3,
		},
		"beside workers that have a place": {
			needed: ray, placed: []string{"gpu-0", "gpu-1"}, waiting: []string{"gpu-2", "gpu-3", "head-0"}, want: []string{"head-0", "gpu-2", "gpu-3"}, wantNeeded: 1,
		},
		"beside a head that has one": {
			needed: ray, placed: []string{"head-0"}, waiting: []string{"gpu-0", "gpu-1", "gpu-2"}, want: []string{"gpu-0", "gpu-1", "gpu-2"}, wantNeeded: 2,
		},
		"of one role": {
			needed: map[string]int{"job": 2}, waiting: []string{"job-0", "job-1", "job-2"}, want: []string{"job-0", "job-1", "job-2"}, wantNeeded: 2,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := func(names []string) []*corev1.Pod {
				out := make([]*corev1.Pod, len(names))
				for i, name := range names {
					out[i] = podNamed(name)
				}
				return out
			}
			waiting := pods(tt.waiting)
			r := &Index{Derived: roles{needed: tt.needed}}
			seats := r.byRole(waiting, pods(tt.placed))
			seats.neededFirst(waiting)
			if seats.needed != tt.wantNeeded {
				t.Errorf("%d are needed, want %d", seats.needed, tt.wantNeeded)
			}
			var got []string
			for _, pod := range waiting {
				got = append(got, pod.Name)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("they go in the order %q, want %q", got, tt.want)
			}
		})
	}
}

// sized is a roles whose owner demands want members.
type sized struct {
	roles
	want int
}

// MinCount is part of Derived.
func (s sized) MinCount(types.NamespacedName) (int, bool) { return s.want, true }

// TestLacking checks the number of members that a gang still has to place, by minCount and by
// roles.
func TestLacking(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		needed          map[string]int
		minCount        int
		placed, waiting []string
		want            int
		wantFirst       string
	}{
		"none has a place": {
			needed: map[string]int{"head": 1, "gpu": 2}, minCount: 3, waiting: []string{"gpu-0", "gpu-1", "gpu-2", "head-0"}, want: 3, wantFirst: "gpu-0",
		},
		"the head is lost, beside workers past their minimum": {
			needed: map[string]int{"head": 1, "gpu": 2}, minCount: 3, placed: []string{"gpu-0", "gpu-1", "gpu-2"}, waiting: []string{"gpu-3", "head-0"}, want: 1, wantFirst: "head-0",
		},
		"one that has grown has a role that it began without": {
			needed: map[string]int{"head": 1, "gpu": 2, "cpu": 2}, minCount: 3, placed: []string{"head-0", "gpu-0", "gpu-1"}, waiting: []string{"cpu-0"}, want: 0, wantFirst: "cpu-0",
		},
		"one that has grown waits for more workers": {
			needed: map[string]int{"head": 1, "gpu": 5}, minCount: 3, placed: []string{"head-0", "gpu-0", "gpu-1"}, waiting: []string{"gpu-2", "gpu-3"}, want: 0, wantFirst: "gpu-2",
		},
		"a worker is lost": {
			needed: map[string]int{"head": 1, "gpu": 2}, minCount: 3, placed: []string{"head-0", "gpu-0"}, waiting: []string{"gpu-1"}, want: 1, wantFirst: "gpu-1",
		},
		"whole": {
			needed: map[string]int{"head": 1, "gpu": 2}, minCount: 3, placed: []string{"head-0", "gpu-0", "gpu-1"}, waiting: []string{"gpu-2"}, want: 0, wantFirst: "gpu-2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total := 0
			for _, n := range tt.needed {
				total += n
			}
			pods := func(names []string) (out []*corev1.Pod) {
				for _, name := range names {
					out = append(out, podNamed(name))
				}
				return out
			}
			o := &Placements{index: &Index{Derived: sized{roles{needed: tt.needed}, total}}}
			members := &gang.Members{Assigned: pods(tt.placed), Pending: pods(tt.waiting)}
			waiting := members.Unplaced()
			got := o.Lacking(&gang.Group{Key: types.NamespacedName{Namespace: "default", Name: "g"}, MinCount: tt.minCount}, members, waiting)
			if got != tt.want || waiting[0].Name != tt.wantFirst {
				t.Errorf("%d are lacking, the first of them %s; want %d, and %s", got, waiting[0].Name, tt.want, tt.wantFirst)
			}
		})
	}
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
}
