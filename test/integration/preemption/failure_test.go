package preemption

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// failureCase is a preemption whose requests to delete victims fail for a time.
type failureCase struct {
	victims []unitSpec
	// failing is the name of the pod whose deletion fails, or "" if all deletions fail. status is
	// the HTTP status code of the failures.
	failing string
	status  int
	gang    int
	// wantTries is the expected number of attempts to preempt while the deletions fail.
	wantTries int
	// wantTaken has the pods that are deleted although another deletion fails.
	wantTaken []string
}

// groups reports whether the case uses PodGroups.
func (c failureCase) groups() bool {
	return c.gang > 0 || slices.ContainsFunc(c.victims, func(u unitSpec) bool { return u.gang > 0 })
}

// TestFailureOfACall checks a preemption with failing deletions. The scheduler must release the
// reservation and report the failure. It must retry after growing delays, with the same victims.
func TestFailureOfACall(t *testing.T) {
	t.Parallel()
	cases := map[string]failureCase{
		"one of two pods, refused": {
			victims: []unitSpec{{name: "victim-x", cpus: 2}, {name: "victim-y", cpus: 2}},
			failing: "victim-y", status: http.StatusForbidden, wantTries: 4, wantTaken: []string{"victim-x"},
		},
		"one of two pods, lost": {
			victims: []unitSpec{{name: "victim-x", cpus: 2}, {name: "victim-y", cpus: 2}},
			failing: "victim-y", status: http.StatusInternalServerError, wantTries: 4, wantTaken: []string{"victim-x"},
		},
		"a pod, for a gang": {
			victims: []unitSpec{{name: "victim-x", cpus: 4}},
			status:  http.StatusForbidden, gang: 2, wantTries: 4,
		},
		"a whole group, refused": {
			victims: []unitSpec{{name: "victim", cpus: 2, gang: 2}},
			status:  http.StatusForbidden, wantTries: 4,
		},
		"a whole group, for a gang": {
			victims: []unitSpec{{name: "victim", cpus: 2, gang: 2}},
			status:  http.StatusForbidden, gang: 2, wantTries: 4,
		},
		"a member of a group that has begun to go": {
			victims: []unitSpec{{name: "victim", cpus: 2, gang: 2}},
			failing: "victim-1", status: http.StatusForbidden, wantTries: 1, wantTaken: []string{"victim-0"},
		},
	}
	for name, c := range cases {
		each(t, name, c.groups(), c.run)
	}
}

func (c failureCase) run(e *env) {
	e.addNodes("a", 1, 4)
	e.addNodes("b", 1, 4)
	bystander := unitSpec{name: "bystander", cpus: 4, priority: "below", zone: "b"}
	e.createRunning(bystander)
	for _, victim := range c.victims {
		victim.priority, victim.zone = "low", "a"
		e.createRunning(victim)
	}
	// Hold the failing deletions until the other victims are deleted.
	hold := e.proxy.Hold(e.deletes(c.failing))
	e.Cleanup(hold.End)
	fails := e.proxy.Fail(e.deletes(c.failing), c.status)
	e.Cleanup(fails.End)
	urgent := unitSpec{name: "urgent", cpus: 4, priority: "mid", gang: c.gang}
	if c.gang > 0 {
		urgent.cpus = 4 / int64(c.gang)
	}
	seen := e.watchNominations(urgent.names()[0])
	e.create(urgent)
	e.Eventually("the others go", func(context.Context) string {
		if got := e.succeeded(); !slices.Equal(got, c.wantTaken) {
			return fmt.Sprintf("deleted so far: %v, want %v", got, c.wantTaken)
		}
		return ""
	})
	hold.End()
	e.waitEvent("urgent", "PreemptionFailed", "", "evict pod "+e.Namespace+"/"+c.failing, "the test has delete of pods")
	e.Eventually("it is tried again", func(context.Context) string {
		if n := len(e.tries()); n < c.wantTries {
			return fmt.Sprintf("%d tries, want %d", n, c.wantTries)
		}
		return ""
	})
	if c.wantTries > 1 {
		e.backedOff(e.tries())
	}
	if got := e.succeeded(); !slices.Equal(got, c.wantTaken) {
		e.Errorf("deleted so far: %v, want %v", got, c.wantTaken)
	}
	fails.End()
	e.waitRunning(urgent)
	e.Never("nobody else goes", func(context.Context) string {
		if got, want := e.deleted(), namesOf(c.victims...); !slices.Equal(got, want) {
			return fmt.Sprintf("%v were taken, want %v", got, want)
		}
		return ""
	})
	e.waitRunning(bystander)
	if got := seen(); c.wantTries > 1 && !takenBack(got) {
		e.Errorf("the nominations were %q, want one that is taken back", got)
	}
}

// tries returns the start times of the failed attempts. An attempt sends one delete request for
// each victim, so a second request for a pod belongs to the next attempt.
func (e *env) tries() []time.Time {
	var out []time.Time
	names := map[string]bool{}
	for _, d := range e.proxy.Calls(e.deletes("")) {
		if d.Status < http.StatusBadRequest {
			continue
		}
		if n := len(out); n == 0 || names[d.Name] {
			out = append(out, d.At)
			clear(names)
		}
		names[d.Name] = true
	}
	return out
}

// backedOff checks the delays between attempts. The delay after the second attempt is at least a
// second, and each further delay is at least twice the previous one.
func (e *env) backedOff(tries []time.Time) {
	e.Helper()
	for i, least := 2, time.Second; i < len(tries); i, least = i+1, 2*least {
		if pause := tries[i].Sub(tries[i-1]); pause < least {
			e.Errorf("try %d came %v after the one before, want at least %v", i+1, pause, least)
		}
	}
}

// succeeded returns the names of the pods that the scheduler has deleted.
func (e *env) succeeded() []string {
	var out []string
	for _, d := range e.proxy.Calls(e.deletes("")) {
		if d.Status == http.StatusOK {
			out = append(out, d.Name)
		}
	}
	slices.Sort(out)
	return out
}

// watchNominations watches the nominated node of a pod. It returns a function that returns all
// values so far.
func (e *env) watchNominations(pod string) func() []string {
	e.Helper()
	var mu sync.Mutex
	var seen []string
	e.FollowPods(pod, func(change watch.EventType, pod *corev1.Pod) {
		if change == watch.Deleted {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if n := len(seen); n == 0 || seen[n-1] != pod.Status.NominatedNodeName {
			seen = append(seen, pod.Status.NominatedNodeName)
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// takenBack reports whether a nomination was removed and then set again.
func takenBack(nominations []string) bool {
	for i := range nominations {
		if i > 1 && nominations[i] != "" && nominations[i-1] == "" && nominations[i-2] != "" {
			return true
		}
	}
	return false
}
