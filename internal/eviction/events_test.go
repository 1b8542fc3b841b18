package eviction

import (
	"testing"

	"k8s.io/client-go/tools/events"
)

// TestEvictionIsToldByTheProfile: what there is to say is said in the name of the preemptor's profile.
func TestEvictionIsToldByTheProfile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failing string
		// want are how many events there are.
		want int
	}{
		"it works":              {want: 4},
		"it fails at the start": {failing: "list", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(whole("g"), pod("urgent-0"))...)
			if c.failing != "" {
				b.failing(errForbidden, c.failing)
			}
			profiles := map[string]*events.FakeRecorder{"main": events.NewFakeRecorder(10), "batch": events.NewFakeRecorder(10)}
			b.executor.RecordAs(func(profile string) events.EventRecorder { return profiles[profile] })
			if err := b.evict(order(victim("g", "g-0", "g-1"))); (err != nil) != (c.failing != "") {
				t.Fatalf("Failed with %v", err)
			}
			if got, others := len(profiles["main"].Events), b.recorded(); got != c.want || len(others)+len(profiles["batch"].Events) > 0 {
				t.Errorf("%d events in the profile's name, want %d; others are %q", got, c.want, others)
			}
		})
	}
}
