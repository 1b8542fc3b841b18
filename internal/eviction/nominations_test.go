package eviction

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

func nominated(name, node string) *corev1.Pod {
	p := pod(name)
	p.Status.NominatedNodeName = node
	return p
}

func (b *bench) nominate(nominations ...podstatus.Nomination) {
	b.executor.Nominate(b.t.Context(), nominations)
	b.executor.Wait()
}

// TestNominate checks that new nominations are written. The tests of package podstatus cover the
// details.
func TestNominate(t *testing.T) {
	t.Parallel()
	b := newBench(t, pod("p"), nominated("q", "n"))
	b.nominate(podstatus.Nomination{Pod: pod("p"), Node: "n"}, podstatus.Nomination{Pod: nominated("q", "n"), Node: "n"})
	if got := b.pod("p").Status.NominatedNodeName; got != "n" {
		t.Errorf("The API says %q", got)
	}
	if got := b.made("nominate"); len(got) != 1 {
		t.Errorf("Calls are %q", got)
	}
}

// held is a transport that blocks requests until released. It reports in gaveUp whether the context
// of a request ended.
type held struct{ arrived, released, gaveUp chan struct{} }

func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	h.arrived <- struct{}{}
	<-h.released
	if r.Context().Err() != nil {
		close(h.gaveUp)
	}
	return nil, errLost
}

// TestNominationsOutliveTheirCycle checks that nominations are written after the context of their
// scheduling cycle has ended.
func TestNominationsOutliveTheirCycle(t *testing.T) {
	t.Parallel()
	h := &held{arrived: make(chan struct{}, 10), released: make(chan struct{}), gaveUp: make(chan struct{})}
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api.invalid", Transport: h})
	if err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	e := New(t.Context(), kube, nil, podstatus.New(t.Context(), kube, kube, flowcontrol.NewFakeAlwaysRateLimiter(), clk), events.NewFakeRecorder(1), clk)
	cycle, end := context.WithCancel(t.Context())
	e.Nominate(cycle, []podstatus.Nomination{{Pod: pod("p"), Node: "n"}})
	<-h.arrived
	end()
	close(h.released)
	e.Wait()
	select {
	case <-h.gaveUp:
		t.Error("it is given up")
	default:
	}
}

// TestLaterNominationsWin checks a nomination that is made after Evict has returned. It replaces
// the nomination of the order, even if the order starts later.
func TestLaterNominationsWin(t *testing.T) {
	t.Parallel()
	o := order(victim("single"))
	objects := []client.Object{pod("single")}
	o.Nominations = nil
	var none []podstatus.Nomination
	for i := range 100 {
		p := pod(fmt.Sprint("urgent-", i))
		objects = append(objects, p)
		o.Nominations = append(o.Nominations, podstatus.Nomination{Pod: p, Node: "n"})
		none = append(none, podstatus.Nomination{Pod: p})
	}
	b := newBench(t, objects...)
	b.executor.Evict(t.Context(), o, b.scheduler)
	b.nominate(none...)
	for _, n := range none {
		if got := b.pod(n.Pod.Name).Status.NominatedNodeName; got != "" {
			t.Fatalf("%s is nominated for %q", n.Pod.Name, got)
		}
	}
}

// TestNominationsAreGivenBack checks nominations that were not written because the write of another
// nomination failed. A later order must be able to make these nominations.
func TestNominationsAreGivenBack(t *testing.T) {
	t.Parallel()
	o := order(victim("single"))
	objects := []client.Object{pod("single")}
	o.Nominations = nil
	for i := range 100 {
		p := pod(fmt.Sprint("urgent-", i))
		objects = append(objects, p)
		o.Nominations = append(o.Nominations, podstatus.Nomination{Pod: p, Node: "n"})
	}
	b := newBench(t, objects...)
	b.failing(errForbidden, "nominate")
	if err := b.evict(o).Err; err == nil {
		t.Fatal("It does not fail")
	}
	if got := len(b.made("nominate")); got == 0 || got > 2*maxParallel {
		t.Errorf("%d calls are made, although the first has failed", got)
	}
	if slices.Contains(b.calls, "delete single") {
		t.Error("A victim goes for a preemptor that is not nominated")
	}
	b.failing(nil)
	if err := b.evict(o).Err; err != nil {
		t.Errorf("Once the API server takes nominations: %v", err)
	}
	if got := b.pod("urgent-99").Status.NominatedNodeName; got != "n" {
		t.Errorf("The last member is nominated for %q", got)
	}
}
