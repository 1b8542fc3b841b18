package gang

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestScheduledBeforeAChange checks a status that is older than the spec. It counts as scheduled
// only if the members that had a node are enough for the present minCount.
func TestScheduledBeforeAChange(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		condition  metav1.ConditionStatus
		generation int64
		scheduled  int32
		minCount   int32
		want       bool
	}{
		"as it is now":                   {condition: metav1.ConditionTrue, generation: 2, scheduled: 2, minCount: 2, want: true},
		"as it is now, some succeeded":   {condition: metav1.ConditionTrue, generation: 2, scheduled: 1, minCount: 2, want: true},
		"minCount was lowered":           {condition: metav1.ConditionTrue, generation: 1, scheduled: 3, minCount: 2, want: true},
		"minCount was raised":            {condition: metav1.ConditionTrue, generation: 1, scheduled: 2, minCount: 3},
		"it was raised, and had surplus": {condition: metav1.ConditionTrue, generation: 1, scheduled: 3, minCount: 3, want: true},
		"no number in the status":        {condition: metav1.ConditionTrue, generation: 1, minCount: 2},
		"no gang":                        {condition: metav1.ConditionTrue, generation: 1, want: true},
		"never scheduled":                {condition: metav1.ConditionFalse, generation: 2, scheduled: 1, minCount: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
			if tt.minCount > 0 {
				pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: tt.minCount}}
			}
			pg.Status.Scheduled = tt.scheduled
			pg.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodGroupScheduled, Status: tt.condition, ObservedGeneration: tt.generation}}
			if got := FromPodGroup(pg).Scheduled; got != tt.want {
				t.Errorf("scheduled: %t, want %t", got, tt.want)
			}
		})
	}
}

// TestUnscheduledSince checks the time since when a status reports too few members with a node.
func TestUnscheduledSince(t *testing.T) {
	t.Parallel()
	created, reported := time.Unix(10, 0), time.Unix(20, 0)
	for name, tt := range map[string]struct {
		condition  metav1.ConditionStatus
		generation int64
		want       time.Time
	}{
		"no report":                {want: created},
		"too few members":          {condition: metav1.ConditionFalse, generation: 2, want: reported},
		"too few, of another spec": {condition: metav1.ConditionFalse, generation: 1},
		"enough members":           {condition: metav1.ConditionTrue, generation: 2},
		"enough, of another spec":  {condition: metav1.ConditionTrue, generation: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Generation: 2, CreationTimestamp: metav1.NewTime(created)}}
			if tt.condition != "" {
				pg.Status.Conditions = []metav1.Condition{{
					Type: v1alpha1.ConditionPodGroupScheduled, Status: tt.condition, ObservedGeneration: tt.generation, LastTransitionTime: metav1.NewTime(reported),
				}}
			}
			if got := FromPodGroup(pg).UnscheduledSince; !got.Equal(tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
