package eviction

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestStopsOfAGroup checks the number of stops in the status of a group. It is the number in the
// decision plus one.
func TestStopsOfAGroup(t *testing.T) {
	t.Parallel()
	f := newFinishing(t, append(whole("g"), pod("urgent-0"))...)
	v := victim("g", "g-0", "g-1")
	v.Stops = 2
	if err := f.evict(order(v)).Err; err != nil {
		t.Fatal(err)
	}
	if d := f.group("g").Status.Disruption; d == nil || d.Stops != 3 {
		t.Errorf("the disruption is %+v, want 3 stops", d)
	}
	f.look(f.informed)
	f.mustReconcile()
	if last := f.group("g").Status.LastDisruption; last == nil || last.Stops != 3 || last.StopTime == nil || !last.StopTime.Equal(&last.Time) {
		t.Errorf("the last disruption is %+v, want 3 stops", last)
	}
}

// TestStopsOfMembers checks that the eviction of single members counts as a stop only if the gang
// then has fewer than minCount members.
func TestStopsOfMembers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken    []core.GangRef
		before    int32
		want      int32
		wantLater bool
	}{
		"the gang stops":             {broken: []core.GangRef{{Namespace: "ns", Name: "g", Stops: 1}}, before: 1, want: 2, wantLater: true},
		"for the first time":         {broken: []core.GangRef{{Namespace: "ns", Name: "g"}}, before: 4, want: 1, wantLater: true},
		"the gang goes on":           {before: 2, want: 2},
		"another gang stops":         {broken: []core.GangRef{{Namespace: "ns", Name: "h"}}, before: 2, want: 2},
		"a gang that never stopped":  {},
		"as often as can be counted": {broken: []core.GangRef{{Namespace: "ns", Name: "g", Stops: math.MaxInt32}}, want: math.MaxInt32, wantLater: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			earlier := metav1.Unix(10, 0)
			objects := append(whole("g"), pod("urgent-0"))
			for _, obj := range objects {
				switch o := obj.(type) {
				case *corev1.Pod:
					if o.Name != "urgent-0" {
						o.Labels = map[string]string{v1alpha1.LabelPodGroup: "g"}
					}
				case *v1alpha1.PodGroup:
					if c.before > 0 {
						o.Status.LastDisruption = &v1alpha1.LastDisruption{Count: 1, Time: earlier, Stops: c.before, StopTime: &earlier}
					}
				}
			}
			f := newFinishing(t, objects...)
			o := order(victim("g-0"))
			o.Decision.BrokenGangs = c.broken
			for uid, p := range o.Victims {
				p.Labels = map[string]string{v1alpha1.LabelPodGroup: "g"}
				o.Victims[uid] = p
			}
			if err := f.evict(o).Err; err != nil {
				t.Fatal(err)
			}
			f.executor.Wait()
			last := f.group("g").Status.LastDisruption
			if last == nil || last.Stops != c.want {
				t.Fatalf("the last disruption is %+v, want %d stops", last, c.want)
			}
			if later := last.StopTime != nil && last.StopTime.Equal(&last.Time); later != c.wantLater {
				t.Errorf("the stop is at %v of %v, and the latest: %t; want %t", last.StopTime, last.Time, later, c.wantLater)
			}
		})
	}
}
