package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// TestDeletionRefused checks a pod whose deletion the API server refused. For some time, neither
// the pod nor its group may be a victim. When that time ends, the preemptor must be retried.
func TestDeletionRefused(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, newPreemptor func(r *rig) *corev1.Pod) {
		clk := clocktesting.NewFakePassiveClock(time.Now())
		refused := eviction.NewRefusals(clk)
		r := newRigOn(t, clientWith(nodes(2, "1")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil, func(in *Inputs) { in.Refused = refused })
		v := *r.gangOf("v", 2, 0)
		v.Whole = true
		r.groups.set(&v)
		stuck := on(pod("stuck", "v", "1", 0), "node-0")
		r.create(stuck, on(pod("with-it", "v", "1", 0), "node-1"))
		p := newPreemptor(r)
		r.create(p)
		r.cycle()
		if got := r.victims(); !slices.Equal(got, []string{"stuck", "with-it"}) {
			t.Fatalf("Victims are %v", got)
		}
		for _, before := range []time.Duration{67 * time.Second, 7 * time.Second} {
			clk.SetTime(time.Now().Add(-before))
			refused.Note(stuck.Namespace, "node-0", stuck.UID)
		}
		r.evictor.outcomes[0] <- eviction.Outcome{Err: errors.New("refused"), Refused: true}
		r.eventually("it is tried after that", func() bool { return len(r.active()) > 0 })
		r.cycle()
		if len(r.evictor.orders) != 1 {
			t.Fatalf("Then, victims are %v", r.victims())
		}
		r.eventually("it is told why", func() bool { return strings.Contains(r.said(p), "(DeletionRefused) is protected no longer") })
		r.eventually("it is tried again", func() bool { return len(r.active()) > 0 })
		r.cycle()
		if len(r.evictor.orders) != 2 {
			t.Error("It is no victim in the end")
		}
		refused.Note(stuck.Namespace, "node-0", stuck.UID)
		r.remove(stuck)
		r.eventually("it is forgotten", func() bool { return refused.Until(stuck.UID).IsZero() })
	})
}

// TestRefusalIsKnownAtOnce checks that the cached snapshot of a node is updated after a refusal,
// although the node has not changed.
func TestRefusalIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(time.Now().Add(-time.Hour / 2))
	refused := eviction.NewRefusals(clk)
	refused.Note("ns", "node-0", "another")
	clk.SetTime(time.Now())
	r := newRigOn(t, clientWith(nodes(1, "1")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil, func(in *Inputs) { in.Refused = refused })
	stuck := on(pod("stuck", "", "1", 0), "node-0")
	r.create(stuck, pod("low", "", "1", 0))
	r.cycle()
	refused.Note(stuck.Namespace, "node-0", stuck.UID)
	r.create(pod("high", "", "1", 10))
	r.cycle()
	if len(r.evictor.orders) != 0 {
		t.Errorf("Victims are %v", r.victims())
	}
}
