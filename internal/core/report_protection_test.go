package core

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func tolerating(below int32, until int64) unitOption {
	return func(u *Unit) { u.Toleration = &Toleration{Below: below, Until: until} }
}

func TestRetryAt(t *testing.T) {
	hour := int64(3600e9)
	for name, tc := range map[string]struct {
		cluster   *build
		preemptor *Preemptor
		want      int64
		wantIn    string
	}{
		"one toleration": {
			cluster:   clusterOf("gpu").node("a", 8).pod("a1", "a", 1, 8, tolerating(100, hour)),
			preemptor: podOf(10, 8), want: hour + 1,
			wantIn: "waits until 1970-01-01T01:00:00Z, when ns/a1 (PreemptionToleration) is protected no longer",
		},
		"the first of two that would do": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).
				pod("a1", "a", 1, 8, tolerating(100, 2*hour)).pod("b1", "b", 1, 8, tolerating(100, hour)),
			preemptor: podOf(10, 8), want: hour + 1, wantIn: "ns/b1 ",
		},
		"the second of two that both have to end": {
			cluster: clusterOf("gpu").node("a", 8).node("b", 8).
				pod("a1", "a", 1, 8, tolerating(100, 2*hour)).pod("b1", "b", 1, 8, tolerating(100, hour)),
			preemptor: gangOf(10, 2, members("w", 2, 0, 8)), want: 2*hour + 1, wantIn: "and 1 more unit are",
		},
		"one whose clock has not begun": {
			cluster: clusterOf("gpu").node("a", 8).pod("a1", "a", 1, 8, func(u *Unit) {
				u.Toleration = &Toleration{Below: 100, Until: Forever, Lasts: hour}
			}),
			preemptor: with(podOf(10, 8), at(hour)), want: 2*hour + 1, wantIn: "waits until 1970-01-01T02:00:00Z",
		},
		"one whose clock has not begun, and one that lasts longer": {
			cluster: clusterOf("gpu").node("a", 8).
				pod("a1", "a", 1, 4, func(u *Unit) { u.Toleration = &Toleration{Below: 100, Until: Forever, Lasts: hour} }).
				pod("a2", "a", 1, 4, tolerating(100, 4*hour)),
			preemptor: with(podOf(10, 8), at(hour)), want: 4*hour + 1,
		},
		"one unit that two protect, for as long as the second": {
			cluster:   clusterOf("gpu").node("a", 8).pod("a1", "a", 1, 8, tolerating(100, 2*hour), since(hour)),
			preemptor: with(podOf(10, 8), at(hour), func(p *Preemptor) { p.MinRuntime.Preempt = 2 * hour }), want: 3*hour + 1, wantIn: "(PreemptMinRuntime)",
		},
		"one without an end": {
			cluster:   clusterOf("gpu").node("a", 8).pod("a1", "a", 1, 8, tolerating(100, Forever)),
			preemptor: podOf(10, 8),
		},
		"time is no help against a higher priority": {
			cluster:   clusterOf("gpu").node("a", 8).pod("a1", "a", 1, 4, tolerating(100, hour)).pod("a2", "a", 50, 4),
			preemptor: podOf(10, 8),
		},
		"time is no help for one that never preempts": {
			cluster: clusterOf("gpu").node("a", 8).pod("a1", "a", 1, 8, tolerating(100, hour)),
			preemptor: func() *Preemptor {
				p := podOf(10, 8)
				p.Never = true
				return p
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustDecide(t, tc.cluster.snapshot(), tc.preemptor, nil)
			if d.Outcome != Infeasible || d.RetryAt != tc.want || !strings.Contains(d.Message, tc.wantIn) {
				t.Errorf("%s, retry at %d: %s; want %d and %q", d.Outcome, d.RetryAt, d.Message, tc.want, tc.wantIn)
			}
		})
	}
}

// TestRetryAtIsTheMoment checks that the preemptor fits just after RetryAt and does not fit just
// before it.
func TestRetryAtIsTheMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := randomCase(fromRapid(t), calmShape)
		d := decideOrFail(t, s, p, nil)
		if d.Outcome != Infeasible {
			return
		}
		outcomeAt := func(now int64) Outcome {
			later := *p
			later.Now = now
			d := decideOrFail(t, s, &later, nil)
			return d.Outcome
		}
		if d.RetryAt == 0 {
			if o := outcomeAt(math.MaxInt64 - 1); o != Infeasible {
				t.Fatalf("no time to retry at, and %s at the end of time", o)
			}
			return
		}
		if o := outcomeAt(d.RetryAt); o == Infeasible {
			t.Fatalf("infeasible at %d, the time to retry at", d.RetryAt)
		}
		if o := outcomeAt(d.RetryAt - 1); o != Infeasible {
			t.Fatalf("%s just before %d, the time to retry at", o, d.RetryAt)
		}
	})
}
