package whatif_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// BenchmarkPlan plans one pod in a full cluster of 1,200 nodes and 8,000 pods.
func BenchmarkPlan(b *testing.B) {
	s := newScene(noon)
	for i := range 1200 {
		s.node(fmt.Sprintf("node-%d", i), 8)
	}
	for i := range 8000 {
		s.running(fmt.Sprintf("old-%d", i), "", fmt.Sprintf("node-%d", i%1200), 1, int32(i%7), time.Duration(i)*time.Second)
	}
	pod := s.pending("new", "", 8, 1000)
	objects, cfg := s.inventory(b), configuration(b)
	for b.Loop() {
		w := manifest.Workload{Kind: "Pod", Namespace: "ns", Name: "new", Pods: []*corev1.Pod{pod.DeepCopy()}}
		if _, err := whatif.Plan(b.Context(), objects, cfg, []manifest.Workload{w}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
