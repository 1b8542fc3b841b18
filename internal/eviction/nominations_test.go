package eviction

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// TestNominationsAreGivenBack: those that were not written because another one failed can be made again.
func TestNominationsAreGivenBack(t *testing.T) {
	t.Parallel()
	o := order(victim("single"))
	objects := []client.Object{pod("single")}
	o.Nominations = nil
	for i := range 100 {
		p := pod(fmt.Sprint("urgent-", i))
		objects = append(objects, p)
		o.Nominations = append(o.Nominations, scheduler.Nomination{Pod: p, Node: "n"})
	}
	b := newBench(t, objects...)
	b.failing(errForbidden, "nominate")
	if err := b.evict(o); err == nil {
		t.Fatal("It does not fail")
	}
	if got := len(b.made("nominate")); got == 0 || got > 2*maxParallel {
		t.Errorf("%d calls are made, although the first has failed", got)
	}
	if slices.Contains(b.calls, "delete single") {
		t.Error("A victim goes for a preemptor that is not nominated")
	}
	b.failing(nil)
	if err := b.evict(o); err != nil {
		t.Errorf("Once the API server takes nominations: %v", err)
	}
	if got := b.pod("urgent-99").Status.NominatedNodeName; got != "n" {
		t.Errorf("The last member is nominated for %q", got)
	}
}
