package stage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Patience is the timeout of each wait.
	Patience = time.Minute
	// watchFor is the time that Never waits for a violation. It is longer than the scheduler's
	// first back-off, so that the scheduler has tried at least twice.
	watchFor = 1500 * time.Millisecond
	// interval is the time between two polls.
	interval = 100 * time.Millisecond
)

// Eventually waits until condition returns "". After a timeout, the test fails with the last result
// of condition.
func (s *Stage) Eventually(what string, condition func(ctx context.Context) string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), Patience)
	defer cancel()
	last := ""
	if err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		// Pass the context of the test, without the timeout. At the timeout, condition would return
		// an error about the context instead of a useful result.
		last = condition(s.Context())
		return last == "", nil
	}); err != nil {
		s.fail(what + ": not within " + Patience.String() + ": " + last)
	}
}

// Never polls for some time, and fails the test when violation returns a text. An empty text is not
// a violation.
func (s *Stage) Never(what string, violation func(ctx context.Context) string) {
	s.Helper()
	s.NeverFor(watchFor, interval, what, violation)
}

// NeverFor is like Never, with a given duration and interval. Tests use it instead of a sleep,
// because it ends at the first violation.
func (s *Stage) NeverFor(period, every time.Duration, what string, violation func(ctx context.Context) string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), period)
	defer cancel()
	if err := wait.PollUntilContextCancel(ctx, every, true, func(context.Context) (bool, error) {
		if v := violation(s.Context()); v != "" {
			return false, errors.New(v)
		}
		return false, nil
	}); !wait.Interrupted(err) {
		s.fail(what + ", but: " + err.Error())
	}
}

// fail ends the test with a message and a description of the namespace.
func (s *Stage) fail(message string) {
	s.Helper()
	s.explained = true
	s.Fatal(message + "\n" + s.Dump())
}

// Mentions reports whether a text contains all phrases.
func Mentions(text string, phrases []string) bool {
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// Runs waits until exactly count pods whose names have the prefix run.
func (s *Stage) Runs(prefix string, count int) {
	s.Helper()
	s.Eventually(prefix+" runs", func(ctx context.Context) string {
		running := 0
		for _, pod := range s.Pods(ctx, prefix) {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != count {
			return strconv.Itoa(running) + " run, want " + strconv.Itoa(count)
		}
		return ""
	})
}

// Gone waits until a pod does not exist.
func (s *Stage) Gone(name string) {
	s.Helper()
	s.Eventually(name+" goes", func(ctx context.Context) string {
		if s.Find(ctx, name) != nil {
			return "it is still there"
		}
		return ""
	})
}

// WaitsSaying waits until a pod has no node and the message of its condition PodScheduled contains
// all words.
func (s *Stage) WaitsSaying(name string, words ...string) {
	s.Helper()
	s.Eventually(name+" waits and says why", func(ctx context.Context) string {
		pod := s.Find(ctx, name)
		if pod == nil {
			return "it does not exist"
		}
		c := scheduledCondition(pod)
		switch {
		case c == nil || c.Status != corev1.ConditionFalse:
			return "it has no such condition"
		case !Mentions(c.Message, words):
			return c.Message
		}
		return ""
	})
}

// WaitsFor waits until a pod has no node, and its condition PodScheduled has the reason and a
// message that contains all words.
func (s *Stage) WaitsFor(name, reason string, words ...string) {
	s.Helper()
	s.WaitsSaying(name, words...)
	s.Eventually(name+" says why in a word", func(ctx context.Context) string {
		if c := scheduledCondition(s.Find(ctx, name)); c == nil || c.Reason != reason {
			return fmt.Sprintf("it says %v", c)
		}
		return ""
	})
}

// scheduledCondition returns the condition PodScheduled of a pod, or nil.
func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c
		}
	}
	return nil
}
