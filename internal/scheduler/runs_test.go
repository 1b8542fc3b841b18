package scheduler

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	// step is how many members have their place after some time, by the start that the status has then.
	type step struct {
		after  time.Duration
		start  time.Time
		placed int
	}
	cases := map[string]struct {
		steps []step
		want  bool
	}{
		"whole all the time":                   {steps: []step{{0, start, 3}, {time.Hour, start, 4}}},
		"short for a moment":                   {steps: []step{{0, start, 2}, {gang.ShortTime / 2, start, 3}, {time.Hour, start, 3}}},
		"short, and still so":                  {steps: []step{{0, start, 2}, {time.Hour, start, 1}}, want: true},
		"short, and just begun to be":          {steps: []step{{0, start, 3}, {time.Hour, start, 2}}},
		"short, and whole again":               {steps: []step{{0, start, 2}, {gang.ShortTime, start, 3}, {time.Hour, start, 3}}, want: true},
		"short twice, the second time briefly": {steps: []step{{0, start, 2}, {gang.ShortTime, start, 3}, {time.Hour, start, 2}, {time.Millisecond, start, 3}}, want: true},
		"the status says it":                   {steps: []step{{0, start, 2}, {gang.ShortTime, start, 3}, {0, start.Add(time.Hour), 3}}},
		"the status says that it is not whole": {steps: []step{{0, start, 2}, {gang.ShortTime, time.Time{}, 2}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r runs
			now := start.Add(time.Hour)
			g := &gang.Group{Key: key("g"), MinCount: 3}
			for _, s := range c.steps {
				now, g.StartTime = now.Add(s.after), s.start
				r.follow(g, s.placed, now)
			}
			if got := r.isOver(g.Key, g.StartTime, now); got != c.want {
				t.Errorf("over: %v, want %v", got, c.want)
			}
			if r.isOver(g.Key, start.Add(-time.Hour), now) {
				t.Error("another run is over as well")
			}
			r.forget(g.Key)
			if r.isOver(g.Key, g.StartTime, now) || len(r.broken) > 0 {
				t.Error("it is not forgotten")
			}
		})
	}
}

// TestRunThatIsBroken: a gang that has lost members, and has others by now, is protected anew before its status says so.
func TestRunThatIsBroken(t *testing.T) {
	t.Parallel()
	r := newRig(t, append([]runtime.Object{tolerantClass("c", "100", "3600")}, nodes(2, "2")...)...)
	g := r.gangOf("g", 2, 0)
	long := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
	g.PriorityClassName, g.StartTime = "c", long
	m, p := members("g", 3, "1", 0), pod("p", "", "2", 10)
	r.create(on(classed(m[0], "c", long), "node-0"), on(classed(m[1], "c", long), "node-0"), on(pod("other", "", "2", 50), "node-1"), p)
	if d := r.decideFor(p); d.Outcome != core.Preempts {
		t.Fatalf("%s: %s, want to preempt what has run long", d.Outcome, d.Message)
	}
	r.remove(m[1])
	r.eventually("it has lacked a member for long enough", func() bool { return r.hub.runs.isOver(g.Key, g.StartTime, r.hub.clock.Now()) })
	now := time.Now().Truncate(time.Second)
	r.create(on(classed(m[2], "c", now), "node-0"))
	if d := r.decideFor(p); d.Outcome != core.Infeasible || d.RetryAt != snapshot.Nanos(now.Add(time.Hour))+1 {
		t.Errorf("%s, retry at %v: %s; want to wait for an hour", d.Outcome, time.Unix(0, d.RetryAt), d.Message)
	}
}
