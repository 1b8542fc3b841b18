package crash

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// slowDelete is the proxy's delay for each delete.
	slowDelete = 300 * time.Millisecond
	// failures is the least number of failed attempts in the test. After the second failed attempt,
	// the scheduler waits before each further attempt, and the wait grows.
	failures = 3

	executions = "reprieve_goroutines_execution_total"
	durations  = "reprieve_goroutines_duration_seconds"
	operation  = `operation="preemption"`
	failed     = `result="error"`
	succeeded  = `result="success"`
)

// TestFailingCalls rejects and delays the deletes of a preemption for some time. During this time,
// no pod is evicted, and the scheduler's metrics and events report the failures. After that,
// exactly the needed pods are evicted.
func TestFailingCalls(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	scheduler := c.startScheduler(t, "first", alone)
	w := c.worlds(t, "w", 1)[0]
	w.explain(t, scheduler)
	var allowed atomic.Bool
	c.proxy.Set(func(call slowapi.Call) slowapi.Answer {
		switch {
		case call.Method != http.MethodDelete || !strings.Contains(call.Path, "/namespaces/"+w.ns+"/pods/"):
			return slowapi.Answer{}
		case allowed.Load():
			return slowapi.Answer{Before: slowDelete}
		default:
			return slowapi.Answer{Before: slowDelete, Refuse: http.StatusForbidden}
		}
	})
	begin := time.Now()
	w.preempt(t)

	c.For(t).Eventually("the preemption fails", func(context.Context) string {
		if n := ofProfile(c.For(t).Metrics(scheduler), executions, operation, failed); n < failures {
			return fmt.Sprintf("%v failures are counted, want %d", n, failures)
		}
		return ""
	})
	w.hearOfFailure(t)
	w.checkFailures(t, c.For(t).Metrics(scheduler), time.Since(begin))
	if now, err := w.look(t.Context()); err != nil || len(now.going) > 0 {
		t.Fatalf("%v go although every delete is refused (%v)", now.going, err)
	}
	resumed := time.Now()
	// Allow the deletes while the scheduler waits between two attempts, so that the next attempt
	// succeeds completely.
	c.For(t).Eventually("everything is taken back", func(ctx context.Context) string {
		left := w.leftover(ctx)
		allowed.Store(left == "")
		return left
	})
	c.For(t).Eventually("the preemptor is placed", func(ctx context.Context) string {
		now, err := w.look(ctx)
		if err != nil {
			return err.Error()
		}
		if now.placed < nodeCount {
			return now.String()
		}
		return ""
	})
	w.checkSuccess(t, c.For(t).Metrics(scheduler), time.Since(resumed))
	w.gone, w.over = w.needed(), true
	verifyAll(t, []*world{w})
}

// hearOfFailure waits for an event about the preemptor that names the failed API call and the
// error.
func (w *world) hearOfFailure(t *testing.T) {
	t.Helper()
	w.at(t).WaitEvent("urgent", "PreemptionFailed", "evict pod "+w.ns+"/", "delete: refused by the test (403)")
}

// leftover describes what a failed attempt has left in the API, such as conditions of victims. It
// returns "" if nothing is left and no attempt is in progress.
func (w *world) leftover(ctx context.Context) string {
	pods, err := w.pods(ctx)
	if err != nil {
		return err.Error()
	}
	for name, pod := range pods {
		if node := pod.Status.NominatedNodeName; strings.HasPrefix(name, "urgent-") && node != "" {
			return name + " is nominated for " + node
		}
	}
	now, err := w.look(ctx)
	if err != nil {
		return err.Error()
	}
	if len(now.begun)+len(now.targets) > 0 {
		return fmt.Sprintf("%v are on record", append(now.begun, now.targets...))
	}
	return ""
}

// ofProfile returns the sum of a metric's samples that have the labels and belong to the tests'
// profile.
func ofProfile(s stage.Metrics, name string, labels ...string) float64 {
	return s.Sum(name, append(labels, `profile="`+stage.Profile+`"`)...)
}

// checkFailures checks the metrics about failed attempts. within is the time since the start of the
// first attempt.
func (w *world) checkFailures(t *testing.T, s stage.Metrics, within time.Duration) {
	t.Helper()
	// Attempts do not overlap, and each attempt waits until a delete is rejected. So the sum of
	// their durations has these bounds.
	n, sum := ofProfile(s, durations+"_count", operation, failed), ofProfile(s, durations+"_sum", operation, failed)
	if least := n * slowDelete.Seconds(); n < failures || sum < least || sum > within.Seconds() {
		t.Errorf("%v failures took %v s, want at least %d, and between %v s and %v", n, sum, failures, least, within)
	}
	if n := ofProfile(s, executions, operation, succeeded); n != 0 {
		t.Errorf("%v successes are counted", n)
	}
	if n := ofProfile(s, "reprieve_preemption_victims_count"); n != 0 {
		t.Errorf("%v preemptions count as having taken pods", n)
	}
}

// checkSuccess checks the metrics after failed attempts and one successful attempt. within is the
// time since the start of the first attempt.
func (w *world) checkSuccess(t *testing.T, s stage.Metrics, within time.Duration) {
	t.Helper()
	if n := ofProfile(s, executions, operation, succeeded); n != 1 {
		t.Errorf("%v successes are counted, want 1", n)
	}
	if sum := ofProfile(s, durations+"_sum", operation, succeeded); sum < slowDelete.Seconds() || sum > within.Seconds() {
		t.Errorf("The success took %v s, want between %v and %v", sum, slowDelete, within)
	}
	// Each attempt follows one search that finds victims. A search for a gang counts once,
	// regardless of the number of members.
	attempts := ofProfile(s, executions, operation)
	if n := ofProfile(s, "reprieve_preemption_attempts_total", `preemptor="gang"`, `result="preempts"`); n != attempts {
		t.Errorf("%v searches found whom to take, want %v as of the preemptions", n, attempts)
	}
	// Only the victims of the successful attempt are counted. The failed attempts have evicted no
	// pod.
	if taken := ofProfile(s, "reprieve_preemption_victims_sum"); taken != float64(len(w.needed())) {
		t.Errorf("%v pods were taken, want %d", taken, len(w.needed()))
	}
	if n := ofProfile(s, "reprieve_preemption_decision_seconds_count", `preemptor="gang"`); n < attempts {
		t.Errorf("%v searches were measured, want at least %v", n, attempts)
	}
}
