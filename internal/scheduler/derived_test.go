package scheduler

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// roles has pods named ROLE-NUMBER, and what their gang needs of each role.
type roles struct {
	underived
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
	}{
		"a head that is younger than workers past their minimum": {
			needed: ray, waiting: []string{"gpu-0", "gpu-1", "gpu-2", "head-0"}, want: []string{"gpu-0", "gpu-1", "head-0", "gpu-2"},
		},
		"two groups of workers": {
			needed:  map[string]int{"head": 1, "a": 1, "b": 1},
			waiting: []string{"a-0", "a-1", "b-0", "b-1", "head-0"}, want: []string{"a-0", "b-0", "head-0", "a-1", "b-1"},
		},
		"beside workers that have a place": {
			needed: ray, placed: []string{"gpu-0", "gpu-1"}, waiting: []string{"gpu-2", "gpu-3", "head-0"}, want: []string{"head-0", "gpu-2", "gpu-3"},
		},
		"beside a head that has one": {
			needed: ray, placed: []string{"head-0"}, waiting: []string{"gpu-0", "gpu-1", "gpu-2"}, want: []string{"gpu-0", "gpu-1", "gpu-2"},
		},
		"of one role": {
			needed: map[string]int{"job": 2}, waiting: []string{"job-0", "job-1", "job-2"}, want: []string{"job-0", "job-1", "job-2"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := func(names []string) []*corev1.Pod {
				out := make([]*corev1.Pod, len(names))
				for i, name := range names {
					out[i] = pod(name, "g", "1", 0)
				}
				return out
			}
			waiting := pods(tt.waiting)
			r := &roster{derived: roles{needed: tt.needed}}
			r.neededFirst(waiting, pods(tt.placed))
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
