package eviction

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

func nominated(name, node string) *corev1.Pod {
	p := pod(name)
	p.Status.NominatedNodeName = node
	return p
}

func (b *bench) nominate(nominations ...scheduler.Nomination) {
	b.executor.Nominate(b.t.Context(), nominations)
	b.executor.Wait()
}

func TestNominate(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pod       *corev1.Pod
		node      string
		framework bool
		wantCalls int
		want      string
	}{
		"a node":                              {pod: pod("p"), node: "n", wantCalls: 1, want: "n"},
		"another node":                        {pod: nominated("p", "old"), node: "n", wantCalls: 1, want: "n"},
		"none any more":                       {pod: nominated("p", "old"), wantCalls: 1},
		"what the API says already":           {pod: nominated("p", "n"), node: "n", want: "n"},
		"what the framework writes by itself": {pod: pod("p"), node: "n", framework: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.pod.DeepCopy())
			b.nominate(scheduler.Nomination{Pod: c.pod, Node: c.node, ByFramework: c.framework})
			if got := b.pod("p").Status.NominatedNodeName; got != c.want {
				t.Errorf("The API says %q, want %q", got, c.want)
			}
			if got := b.made("nominate"); len(got) != c.wantCalls {
				t.Errorf("Calls are %q", got)
			}
		})
	}
}

// TestNominationsThatFollowEachOther: what the scheduler knows of a pod lags behind what was written.
func TestNominationsThatFollowEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, pod("p"))
	stale := pod("p")
	b.nominate(scheduler.Nomination{Pod: stale, Node: "n"})
	b.nominate(scheduler.Nomination{Pod: stale})
	if got := b.pod("p").Status.NominatedNodeName; got != "" {
		t.Errorf("The API still says %q", got)
	}
	// The framework has written since, as the scheduler's last word.
	b.nominate(scheduler.Nomination{Pod: stale, Node: "m", ByFramework: true})
	b.nominate(scheduler.Nomination{Pod: stale})
	if got := b.made("nominate"); len(got) != 3 {
		t.Errorf("Calls are %q, want one to take back what the framework wrote", got)
	}
	// What is long past is not remembered.
	b.clock.Step(2 * memory)
	b.nominate(scheduler.Nomination{Pod: stale})
	if got := b.made("nominate"); len(got) != 3 || len(b.executor.nominate.slots) != 0 {
		t.Errorf("Calls are %q, %d pods are remembered", got, len(b.executor.nominate.slots))
	}
}

// TestLastNominationWins, although an earlier one is under way when it is made.
func TestLastNominationWins(t *testing.T) {
	t.Parallel()
	b := newBench(t, pod("p"))
	first, release := make(chan struct{}), make(chan struct{})
	started := false
	b.executor.nominate.pods = gated{b.pods, func(string) {
		if !started {
			started = true
			close(first)
			<-release
		}
	}}
	b.executor.Nominate(t.Context(), []scheduler.Nomination{{Pod: pod("p"), Node: "n"}})
	<-first
	b.executor.Nominate(t.Context(), []scheduler.Nomination{{Pod: pod("p"), Node: "m"}})
	b.executor.Nominate(t.Context(), []scheduler.Nomination{{Pod: pod("p"), Node: "o"}})
	close(release)
	b.executor.Wait()
	if got := b.pod("p").Status.NominatedNodeName; got != "o" {
		t.Errorf("The API says %q", got)
	}
	if got := b.made("nominate"); len(got) != 2 {
		t.Errorf("Calls are %q, want none for what is out of date", got)
	}
}

// TestNominationsAreGivenBack: those that were not written because another one failed can be made again.
func TestNominationsAreGivenBack(t *testing.T) {
	t.Parallel()
	o := order(victim("single"))
	b := newBench(t, pod("single"))
	o.Nominations = nil
	for i := range 100 {
		p := pod("urgent-" + string(rune('A'+i)))
		o.Nominations = append(o.Nominations, scheduler.Nomination{Pod: p, Node: "n"})
	}
	b.failing(errForbidden, "nominate")
	if err := b.evict(o); err == nil {
		t.Fatal("It does not fail")
	}
	if got := len(b.made("nominate")); got == 0 || got > 2*maxParallel {
		t.Errorf("%d calls are made, although the first has failed", got)
	}
	for uid, s := range b.executor.nominate.slots {
		if s.users != 0 {
			t.Errorf("%s has %d users", uid, s.users)
		}
	}
	if slices.Contains(b.calls, "delete single") {
		t.Error("A victim goes for a preemptor that is not nominated")
	}
	b.clock.Step(memory + time.Second)
	b.nominate()
	if n := len(b.executor.nominate.slots); n != 0 {
		t.Errorf("%d pods are remembered", n)
	}
}
