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
	// watchFor is how long a test watches for what must not happen. It is longer than the scheduler's first back-off,
	// so that what must not happen would have had its chance.
	watchFor = 1500 * time.Millisecond
	// interval is the time between two looks at what is waited for.
	interval = 100 * time.Millisecond
)

// Eventually waits until condition returns "", and fails the test with what it returned last.
func (s *Stage) Eventually(what string, condition func(ctx context.Context) string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), Patience)
	defer cancel()
	last := ""
	if err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		// Not with the context that ends: what is not answered in time would hide what came before.
		last = condition(s.Context())
		return last == "", nil
	}); err != nil {
		s.fail(what + ": not within " + Patience.String() + ": " + last)
	}
}

// Never watches for a while, and fails the test as soon as violation returns anything but "".
func (s *Stage) Never(what string, violation func(ctx context.Context) string) {
	s.Helper()
	s.NeverFor(watchFor, interval, what, violation)
}

// NeverFor is Never with a time of its own, and a time between two looks. It is what a test uses in place of a sleep:
// what must not happen meanwhile ends it at once.
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

// fail ends the test, with how things stand.
func (s *Stage) fail(message string) {
	s.Helper()
	s.explained = true
	s.Fatal(message + "\n" + s.Dump())
}

// Mentions reports whether a text has all of the phrases in it.
func Mentions(text string, phrases []string) bool {
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// Runs waits until exactly that many pods run whose names start so.
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

// Gone waits until a pod does not exist any more.
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

// WaitsFor waits until a pod says that it waits for a reason, in a message with some words.
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

// scheduledCondition is what a pod says of its being scheduled, or nil.
func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c
		}
	}
	return nil
}
