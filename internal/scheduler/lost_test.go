package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// TestLostWork checks the lost work that is recorded for each victim, in the order of victims: the
// resources of its pods, multiplied by the time since their start.
func TestLostWork(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	started := func(name, cpu string, before time.Duration) *corev1.Pod {
		p := pod(name, "", cpu, 0)
		p.UID = types.UID(name)
		if before > 0 {
			p.Status.StartTime = &metav1.Time{Time: now.Add(-before)}
		}
		return p
	}
	made := &cycleDecision{
		victims: []*corev1.Pod{started("single", "2", 10*time.Second), started("g-0", "1", time.Minute), started("g-1", "1", 30*time.Second), started("new", "1", 0)},
		decision: core.Decision{Victims: []core.Victim{
			{UID: "group", Group: true, Pods: []core.VictimPod{{UID: "g-0"}, {UID: "g-1"}}},
			{UID: "new", Pods: []core.VictimPod{{UID: "new"}}},
			{UID: "single", Pods: []core.VictimPod{{UID: "single"}}},
		}},
	}
	want := []decisionlog.Lost{
		{UID: "group", Since: now.Add(-time.Minute), Spent: map[string]float64{"cpu": 90_000}},
		{UID: "new"},
		{UID: "single", Since: now.Add(-10 * time.Second), Spent: map[string]float64{"cpu": 20_000}},
	}
	if diff := cmp.Diff(want, lostWith(made.decision.Victims, made.victims, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := lostWith(nil, nil, now); got != nil {
		t.Errorf("Without victims %v is lost", got)
	}
}
