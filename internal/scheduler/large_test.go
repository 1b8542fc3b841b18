package scheduler

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	largeSize = 600
	// largeBound is what anything worse than quadratic would exceed by far, on any machine.
	largeBound = 30 * time.Second
	// burst is as many events as the client without a server can hold.
	burst = 50
)

// createLarge creates members as fast as they are taken in.
func (r *rig) createLarge(pods []*corev1.Pod) {
	r.t.Helper()
	for chunk := range slices.Chunk(pods, burst) {
		for _, p := range chunk {
			if _, err := r.client.CoreV1().Pods("ns").Create(r.t.Context(), p, metav1.CreateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}
		last := chunk[len(chunk)-1]
		r.eventually("the members are known", func() bool {
			_, known := r.sched.SchedulingQueue.GetPod(last.Name, last.Namespace)
			return known
		})
	}
}

func (r *rig) deleteLarge(next func(left []*corev1.Pod) int, pods []*corev1.Pod) {
	r.t.Helper()
	for len(pods) > 0 {
		var gone *corev1.Pod
		for range min(burst, len(pods)) {
			i := next(pods)
			gone = pods[i]
			if err := r.client.CoreV1().Pods("ns").Delete(r.t.Context(), gone.Name, metav1.DeleteOptions{}); err != nil {
				r.t.Fatal(err)
			}
			pods = slices.Delete(pods, i, i+1)
		}
		r.eventually("the members have gone", func() bool {
			_, err := r.hub.pods.Pods("ns").Get(gone.Name)
			return err != nil
		})
	}
	r.eventually("the gang is forgotten", func() bool { return r.hub.registry.Len() == 0 && r.hub.seats.empty() })
}

// TestLargeGang holds the bookkeeping of a gang to a time: it arrives, is planned, and all but one of its
// members are through when they are deleted one by one.
func TestLargeGang(t *testing.T) {
	r := newRig(t, nodes(largeSize/8, "8")...)
	r.gangOf("g", largeSize, 0)
	all := members("g", largeSize, "1", 0)
	start := time.Now()
	lap := func(what string) {
		t.Helper()
		took := time.Since(start)
		t.Logf("%s: %v", what, took)
		if took > largeBound {
			t.Errorf("%s: %v, want less than %v", what, took, largeBound)
		}
		start = time.Now()
	}
	r.createLarge(all)
	r.eventually("the gang is complete", func() bool { return len(r.active()) == 1 })
	lap("create")
	r.cycle()
	lap("plan")
	for range largeSize - 2 {
		r.cycle()
	}
	lap("confirm")
	r.deleteLarge(func([]*corev1.Pod) int { return 0 }, all)
	lap("delete")
}

// TestLargeGangThatDoesNotFit is deleted member by member, the leader first each time.
func TestLargeGangThatDoesNotFit(t *testing.T) {
	r := newRig(t, nodes(1, "8")...)
	r.gangOf("g", largeSize, 0)
	all := members("g", largeSize+burst, "1", 0)
	start := time.Now()
	r.createLarge(all)
	r.eventually("the gang is complete", func() bool { return len(r.active()) > 0 })
	r.cycle()
	r.deleteLarge(func(left []*corev1.Pod) int {
		leader := r.hub.registry.Leader(key("g"))
		return max(slices.IndexFunc(left, func(p *corev1.Pod) bool { return p.UID == leader }), 0)
	}, all)
	if took := time.Since(start); took > largeBound {
		t.Errorf("%v, want less than %v", took, largeBound)
	}
}
