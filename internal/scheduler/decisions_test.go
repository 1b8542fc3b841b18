package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/eviction"
)

// recorded sets a decision log for the scheduler. seen returns the preemptor, the outcome and the
// state of each record.
func (r *rig) recorded() (seen func() []string, log *decisionlog.Log) {
	log = decisionlog.New(decisionlog.Options{})
	r.sched.decisions, r.sched.recorded.decisions = log, log
	return func() []string {
		var out []string
		for _, one := range log.Latest() {
			said := fmt.Sprintf("%s %s %s", one.Decision.Preemptor.Name, one.Decision.Outcome, one.Result.State)
			if one.Repeated {
				said += " again"
			}
			out = append(out, said)
		}
		return out
	}, log
}

func wantRecorded(t *testing.T, seen func() []string, want ...string) {
	t.Helper()
	if got := seen(); !slices.Equal(got, want) {
		t.Errorf("%q is recorded, want %q", got, want)
	}
}

// TestPreemptionIsRecorded checks that a preemption is recorded when it begins, and again with its
// result.
func TestPreemptionIsRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome eviction.Outcome
		want    decisionlog.Result
	}{
		"carried out": {want: decisionlog.Result{State: decisionlog.CarriedOut}},
		"failed": {
			outcome: eviction.Outcome{Err: errRefused, Begun: sets.New[types.UID]("v")},
			want:    decisionlog.Result{State: decisionlog.Failed, Error: errRefused.Error(), Begun: 1},
		},
		"given up": {
			outcome: eviction.Outcome{Err: fmt.Errorf("look again: %w", eviction.ErrOutdated)},
			want:    decisionlog.Result{State: decisionlog.GivenUp, Error: "look again: " + eviction.ErrOutdated.Error()},
		},
	} {
		for how, isAsynchronous := range map[string]bool{"beside the cycle": true, "within the cycle": false} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				want := c.want
				r := newRigArgs(t, fmt.Sprintf("{asynchronous: %t}", isAsynchronous), nodes(1, "1")...)
				seen, log := r.recorded()
				r.create(on(pod("v", "", "1", 0), "node-0"), pod("p", "", "1", 10))
				began := r.sched.clock.Now()
				if isAsynchronous {
					r.cycle()
					wantRecorded(t, seen, "p Preempts UnderWay")
					r.finish(0, c.outcome)
				} else {
					// If the order fails at once, the outcome lists no victims whose eviction
					// began.
					r.evictor.atOnce = func() error { return c.outcome.Err }
					want.Begun = 0
					r.cycle()
				}
				got := log.Latest()[0]
				if got.Result.Time.Before(got.Time) || got.Time.Before(began) {
					t.Errorf("It was decided at %s and known at %s, the cycle began at %s", got.Time, got.Result.Time, began)
				}
				want.Time = got.Result.Time
				if got.Result != want {
					t.Errorf("The result is %+v, want %+v", got.Result, want)
				}
				if got.Profile != "reprieve-scheduler" || len(got.Asks) != 1 || got.Asks[0].Pods != 1 || got.Asks[0].Request["cpu"] != 1000 {
					t.Errorf("The record says profile %q, asks %+v", got.Profile, got.Asks)
				}
				if len(got.Decision.Victims) != 1 || got.Decision.Victims[0].Name != "v" {
					t.Errorf("The victims are %+v", got.Decision.Victims)
				}
			})
		}
	}
}

// TestWhatFindsNoRoomIsRecorded checks that a decision is recorded for a workload without room, and
// not for a workload with room.
func TestWhatFindsNoRoomIsRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(r *rig)
		want    []string
		// wantWaitsFor is the field waitsFor of the last record.
		wantWaitsFor string
		// wantRetry is true if the last record has a time of retry.
		wantRetry bool
	}{
		"there is room": {arrange: func(r *rig) { r.create(pod("p", "", "1", 10)) }},
		"no way": {
			arrange: func(r *rig) {
				r.create(on(pod("v", "", "2", 20), "node-0"), pod("p", "", "1", 10))
			},
			want: []string{"p Infeasible Waiting"},
		},
		"no way for its equal either": {
			arrange: func(r *rig) {
				r.create(on(pod("v", "", "2", 20), "node-0"), pod("p", "", "1", 10))
				r.cycle()
				r.create(pod("q", "", "1", 10))
			},
			want: []string{"p Infeasible Waiting", "q Infeasible Waiting again"},
		},
		"a gang": {
			arrange: func(r *rig) {
				r.gangOf("g", 2, 10)
				r.create(on(pod("v", "", "2", 20), "node-0"))
				r.create(members("g", 2, "1", 10)...)
			},
			want: []string{"g Infeasible Waiting"},
		},
		"a pod is on its way out": {
			arrange: func(r *rig) {
				r.create(on(pod("v", "", "2", 0), "node-0"), pod("first", "", "1", 10))
				r.cycle()
				r.create(pod("p", "", "1", 10))
			},
			want:         []string{"first Preempts UnderWay", "p Waits Waiting"},
			wantWaitsFor: "waits for ns/v on node-0",
		},
		"a window protects the one that may be taken at the limit of a queue": {
			arrange: func(r *rig) {
				q := limitedQueue("a", "1")
				q.Spec.PreemptMinRuntime = &metav1.Duration{Duration: time.Hour}
				r.sched.QueueSet(q)
				v, p := on(pod("v", "", "1", 0), "node-0"), pod("p", "", "1", 10)
				v.Labels, p.Labels = map[string]string{v1alpha1.LabelQueue: "a"}, map[string]string{v1alpha1.LabelQueue: "a"}
				r.create(v, p)
				r.eventually("the books know of them", func() bool { return r.sched.quotas.Knows(v.UID) && r.sched.quotas.Knows(p.UID) })
			},
			want:      []string{"p Infeasible Waiting"},
			wantRetry: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, plainYAML, nil, nodes(1, "2")...)
			seen, log := r.recorded()
			c.arrange(r)
			r.cycle()
			wantRecorded(t, seen, c.want...)
			if latest := log.Latest(); len(latest) > 0 {
				last := latest[len(latest)-1]
				if last.WaitsFor != c.wantWaitsFor || (last.Decision.RetryAt != 0) != c.wantRetry {
					t.Errorf("It waits for %q, and until %d", last.WaitsFor, last.Decision.RetryAt)
				}
			}
		})
	}
}

// TestEndOfWaitIsRecorded checks that the end of a wait is recorded for pods and gangs that had to
// wait after a decision. Workloads that found room at once have no record.
func TestEndOfWaitIsRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(r *rig)
		want    []string
	}{
		"there was room": {arrange: func(r *rig) {
			r.create(pod("p", "", "1", 10))
			r.cycle()
			r.waitBound("p")
		}},
		"a pod waits": {arrange: func(r *rig) {
			r.create(on(pod("v", "", "2", 20), "node-0"), pod("p", "", "1", 10))
			r.cycle()
		}},
		"a pod was bound": {
			arrange: func(r *rig) {
				v := on(pod("v", "", "2", 20), "node-0")
				r.create(v, pod("p", "", "1", 10))
				r.cycle()
				r.remove(v)
				r.cycles()
				r.waitBound("p")
			},
			want: []string{"p 1 Bound"},
		},
		"a pod was deleted": {
			arrange: func(r *rig) {
				p := pod("p", "", "1", 10)
				r.create(on(pod("v", "", "2", 20), "node-0"), p)
				r.cycle()
				r.remove(p)
			},
			want: []string{"p 1 Gone"},
		},
		"a gang was bound": {
			arrange: func(r *rig) {
				r.gangOf("g", 2, 10)
				v := on(pod("v", "", "2", 20), "node-0")
				r.create(v)
				r.create(members("g", 2, "1", 10)...)
				r.cycle()
				r.remove(v)
				r.cycles()
				r.waitBound("g-0", "g-1")
			},
			want: []string{"g 1 Bound"},
		},
		"a gang was deleted": {
			arrange: func(r *rig) {
				r.gangOf("g", 2, 10)
				r.create(on(pod("v", "", "2", 20), "node-0"))
				gang := members("g", 2, "1", 10)
				r.create(gang...)
				r.cycle()
				for _, member := range gang {
					r.remove(member)
				}
			},
			want: []string{"g 1 Gone"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, plainYAML, nil, nodes(1, "2")...)
			_, log := r.recorded()
			c.arrange(r)
			ends := func() (out []string) {
				for _, e := range log.Ends() {
					out = append(out, fmt.Sprintf("%s %d %s", e.Name, e.Sequence, e.End))
				}
				return out
			}
			r.eventually("the end is recorded", func() bool { return len(ends()) >= len(c.want) })
			if got := ends(); !slices.Equal(got, c.want) {
				t.Errorf("The ends are %q, want %q", got, c.want)
			}
		})
	}
}
