package controller

import (
	"fmt"
	"strings"
	"testing"
)

// TestMessageOfManySchedulerNames checks the length of the message for members that name many
// schedulers with long names. The API server accepts at most 32768 characters in a condition.
func TestMessageOfManySchedulerNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, gangGroup(2))
	b.pods = named("p", 200)
	for i, pod := range b.pods {
		pod.Spec.SchedulerName = fmt.Sprintf("%s%03d", strings.Repeat("s", 250), i)
	}
	b.reconcile()
	for _, condition := range b.group().Status.Conditions {
		if len(condition.Message) > 32768 {
			t.Errorf("the message of condition %s has %d characters", condition.Type, len(condition.Message))
		}
	}
}
