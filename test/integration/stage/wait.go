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
	// Patience bounds every wait.
	Patience = time.Minute
	// watchFor is the time that Never watches for a violation. It is longer than the scheduler's
	// first back-off, so that a violation would have had enough time.
	watchFor = 1500 * time.Millisecond
	// interval is the time between two polls.
	interval = 100 * time.Millisecond
)

// Eventually waits until condition returns "". Otherwise it fails the test with the last result.
func (s *Stage) Eventually(what string, condition func(ctx context.Context) string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), Patience)
	defer cancel()
	last := ""
	if err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		// This is not the context that ends, because its error would hide the last result.
		last = condition(s.Context())
		return last == "", nil
	}); err != nil {
		s.fail(what + ": not within " + Patience.String() + ": " + last)
	}
}

// Never watches for a while, and fails the test as soon as violation does not return "".
func (s *Stage) Never(what string, violation func(ctx context.Context) string) {
	s.Helper()
	s.NeverFor(watchFor, interval, what, violation)
}

// NeverFor is Never with a given period and time between two polls. Tests use it in place of a
// sleep, because a violation ends it at once.
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

// fail ends the test, with the state of the namespace.
func (s *Stage) fail(message string) {
	s.Helper()
	s.explained = true
	s.Fatal(message + "\n" + s.Dump())
}

// Mentions reports whether a text contains all of the phrases.
func Mentions(text string, phrases []string) bool {
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// Runs waits until exactly count pods with the prefix run.
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

// WaitsSaying waits until the condition of a pending pod has all of the words.
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

// WaitsFor waits until the condition of a pending pod has the reason and all of the words.
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

// scheduledCondition returns a pod's condition PodScheduled, or nil.
func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c
		}
	}
	return nil
}
