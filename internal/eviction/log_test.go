package eviction

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// TestLogTellsAGroupsStory checks the log lines about a victim group at each verbosity. Each line
// must name the group.
func TestLogTellsAGroupsStory(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		verbosity int
		prepare   func(b *bench)
		// want lists the expected messages about the group, in any order.
		want []string
	}{
		"what happened": {verbosity: 2, want: []string{"Preempted a victim"}},
		"why":           {verbosity: 4, want: []string{"Preempted a victim", "Why a victim was preempted"}},
		"each step": {verbosity: 6, want: []string{
			"Preempted a victim", "Why a victim was preempted", "Listed a group's victims",
			"Marked a victim", "Deleted a victim", "Marked a victim", "Deleted a victim",
		}},
		"of one that was turned back": {verbosity: 2, prepare: func(b *bench) {
			b.scheduler.turnBack = func(*corev1.Pod) bool { return true }
		}, want: []string{"Turned a victim back before it was bound", "Turned a victim back before it was bound"}},
		"of one that stays": {verbosity: 2, prepare: func(b *bench) {
			b.scheduler.wants = wantedFor(1)
		}, want: []string{"Canceled a preemption"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(whole("g"), pod("urgent-0"))...)
			if c.prepare != nil {
				c.prepare(b)
			}
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(c.verbosity)))
			b.executor.Evict(klog.NewContext(t.Context(), logger), order(victim("g", "g-0", "g-1")), b.scheduler)
			b.executor.Wait()
			sink, ok := logger.GetSink().(ktesting.Underlier)
			if !ok {
				t.Fatalf("The sink is a %T", logger.GetSink())
			}
			var got []string
			for _, line := range sink.GetBuffer().Data() {
				values := fmt.Sprint(slices.Concat(line.WithKVList, line.ParameterKVList)...)
				if !strings.Contains(values, "preemptorns/urgent") || line.Type == ktesting.LogError {
					t.Errorf("A line is an error, or does not name the preemptor: %s %s", line.Message, values)
				}
				if strings.Contains(values, "podGroupns/g") {
					got = append(got, line.Message)
				}
			}
			if !sameElements(got, c.want) {
				t.Errorf("The lines about the group are %q, want %q", got, c.want)
			}
		})
	}
}
