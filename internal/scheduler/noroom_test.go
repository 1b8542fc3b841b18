package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/engine"
)

// plainYAML is a profile with only in-tree plugins and Reprieve. In such a profile, the scheduler
// knows the inputs of all filters, so it caches decisions without room.
var plainYAML = strings.NewReplacer(", {name: SlowPreBind}", "", ", {name: Refusing}", "").Replace(schedulerYAML)

// searches returns the number of searches so far that found no room.
func (r *rig) searches() int {
	r.t.Helper()
	return r.counted("reprieve_preemption_attempts_total", "result", "infeasible")
}

// counted returns the sum of all series of a counter that have a label value.
func (r *rig) counted(counter, label, value string) (sum int) {
	r.t.Helper()
	families, err := r.measured.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != counter {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label && l.GetValue() == value {
					sum += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return sum
}

// TestReplacementsAreNotSearchedForAgain checks the replacements of victims, for which there is
// nothing to preempt. The replacements are retried on every change, but a search must run only
// after changes that may free room.
func TestReplacementsAreNotSearchedForAgain(t *testing.T) {
	t.Parallel()
	const victims = 8
	r := newRigWith(t, plainYAML, nil, nodes(victims, "1")...)
	for i := range victims {
		r.create(on(pod(fmt.Sprintf("low-%d", i), "", "1", 0), fmt.Sprintf("node-%d", i)))
	}
	for i := range victims {
		high := fmt.Sprintf("high-%d", i)
		r.create(pod(high, "", "1", 10))
		r.eventually(high+" preempts", func() bool { r.cycles(); return len(r.evictor.orders) == i+1 })
		r.succeed(i)
		r.create(pod(fmt.Sprintf("again-%d", i), "", "1", 0))
		r.cycles()
		victim := r.taken(i)[0]
		r.remove(on(pod(victim, "", "1", 0), "node-"+strings.TrimPrefix(victim, "low-")))
		r.eventually(high+" is bound", func() bool { r.cycles(); return r.nodeOf(high) != "" })
	}
	// Each preemption causes one search, for the first replacement. If the preemption takes long,
	// retries of earlier replacements cause a second search while the victim terminates, and a
	// third when it is gone.
	if n, most := r.searches(), 3*victims; n > most {
		t.Errorf("%d searches in vain for %d replacements, want at most %d", n, victims, most)
	} else {
		t.Logf("%d searches in vain for %d replacements", n, victims)
	}
}

// TestRefusedUntilItMatters checks several equal pods without room. After a change that may free
// room, the next retried pod must cause a search.
func TestRefusedUntilItMatters(t *testing.T) {
	t.Parallel()
	full := func(r *rig) {
		for i, priority := range []int32{20, 20, 0} {
			r.create(on(pod(fmt.Sprintf("v-%d", i), "", "2", priority), fmt.Sprintf("node-%d", i)))
		}
	}
	for name, tc := range map[string]struct {
		change func(*rig)
		// wantOn is the node of the pod at the end; "" for none.
		wantOn string
		// wantTaken are the names of the victims.
		wantTaken []string
	}{
		"nothing": {change: func(*rig) {}},
		"a pod that stood in the way goes": {change: func(r *rig) {
			r.remove(on(pod("v-0", "", "2", 20), "node-0"))
		}, wantOn: "node-0"},
		"one that may be taken is in its place": {change: func(r *rig) {
			r.remove(on(pod("v-0", "", "2", 20), "node-0"))
			r.create(on(pod("lower", "", "2", 1), "node-0"))
		}, wantTaken: []string{"lower"}},
		"a node comes": {change: func(r *rig) {
			if _, err := r.client.CoreV1().Nodes().Create(r.t.Context(), node("node-3", "2"), metav1.CreateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}, wantOn: "node-3"},
		"a node is uncordoned": {change: func(r *rig) {
			n := node("node-2", "2")
			if _, err := r.client.CoreV1().Nodes().Update(r.t.Context(), n, metav1.UpdateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}, wantTaken: []string{"v-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := nodes(3, "2")
			if cordoned, ok := objects[2].(*corev1.Node); ok {
				cordoned.Spec.Unschedulable = true
			}
			r := newRigWith(t, plainYAML, nil, objects...)
			full(r)
			for i := range 3 {
				r.create(pod(fmt.Sprintf("p-%d", i), "", "2", 10))
				r.cycles()
			}
			if n := r.searches(); n != 1 {
				t.Errorf("%d searches for equal pods, want 1", n)
			}
			tc.change(r)
			p := pod("p", "", "2", 10)
			r.create(p)
			r.eventually("it comes to what it should", func() bool {
				r.cycles()
				var bound []string
				for _, name := range []string{"p", "p-0", "p-1", "p-2"} {
					if on := r.nodeOf(name); on != "" {
						bound = append(bound, on)
					}
				}
				if tc.wantTaken != nil {
					return len(r.evictor.orders) > 0 && slices.Equal(r.taken(0), tc.wantTaken)
				}
				return tc.wantOn == "" && bound == nil || slices.Equal(bound, []string{tc.wantOn})
			})
		})
	}
}

// turmoil is a rig with running pods and reservations, to which a test makes random changes.
type turmoil struct {
	*rig
	rnd  *rand.Rand
	pods map[string]*corev1.Pod
	used map[string]int
	// promised are the pods that have a reservation and no node, by name.
	promised map[string]*corev1.Pod
	// queues are the names of the queues that pods may be in; nil for no queues.
	queues []string
}

func (c *turmoil) any(of map[string]*corev1.Pod) *corev1.Pod {
	names := slices.Sorted(maps.Keys(of))
	if len(names) == 0 {
		return nil
	}
	return of[names[c.rnd.IntN(len(names))]]
}

// disturb makes one random change.
func (c *turmoil) disturb(name string) {
	c.t.Helper()
	node, size := fmt.Sprintf("node-%d", c.rnd.IntN(3)), 1+c.rnd.IntN(3)
	p := pod(name, "", fmt.Sprint(size), []int32{0, 5, 20, 20, 40, 40}[c.rnd.IntN(6)])
	if n := c.rnd.IntN(len(c.queues) + 1); n > 0 {
		p = ofQueue(c.queues[n-1], p)
	}
	fits := c.used[node]+size <= 4
	switch what := c.rnd.IntN(9); {
	case what < 4 && !fits:
	case what < 4:
		c.create(on(p, node))
		c.pods[name], c.used[node] = p, c.used[node]+size
	case what == 4 && fits:
		c.create(p)
		c.promise(p, node)
		c.used[node] += size
	case what == 5:
		if p := c.any(c.promised); p != nil {
			c.settle(p)
		}
	case what == 6:
		if p := c.any(c.pods); p != nil {
			c.terminate(p.Name, time.Now())
		}
	case what == 7:
		if p := c.any(c.pods); p != nil {
			c.leave(p)
		}
	}
}

func cpusOf(p *corev1.Pod) int { return int(p.Spec.Containers[0].Resources.Requests.Cpu().Value()) }

func (c *turmoil) promise(p *corev1.Pod, node string) {
	pi, err := framework.NewPodInfo(p)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sched.steps.reserveRooms(podKey(p), []*engine.Reservation{{Pod: pi, UID: string(p.UID), Node: node, Standing: c.sched.ledger.StandingOf(p)}})
	c.promised[p.Name] = p
}

// settle binds a pod to its reserved node or, at random, only releases the reservation.
func (c *turmoil) settle(p *corev1.Pod) {
	node, _ := c.reservedOn(p.UID)
	delete(c.promised, p.Name)
	if c.rnd.IntN(3) == 0 {
		c.sched.steps.step(engine.Releases{Key: podKey(p)})
		c.used[node] -= cpusOf(p)
		return
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: p.Name}, Target: corev1.ObjectReference{Name: node}}
	if err := c.client.CoreV1().Pods("ns").Bind(c.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.pods[p.Name] = on(p.DeepCopy(), node)
	c.eventually(p.Name+" is known to be bound", func() bool {
		_, err := c.upstream.Cache.GetPod(p)
		return err == nil && !c.sched.reserved.Has(string(p.UID))
	})
}

func (c *turmoil) leave(p *corev1.Pod) {
	delete(c.pods, p.Name)
	c.used[p.Spec.NodeName] -= cpusOf(p)
	c.remove(p)
}

// TestRefusalsHold checks, after random changes, that a cached decision equals the result of a
// search.
func TestRefusalsHold(t *testing.T) {
	t.Parallel()
	for name, queues := range map[string][]string{"by priority": nil, "with queues": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const steps = 150
			repeated := 0
			for seed := range uint64(4) {
				repeated += decideInTurmoil(t, seed, steps, queues)
			}
			if t.Logf("%d decisions were repeated", repeated); repeated == 0 {
				t.Error("none was")
			}
		})
	}
}

// decideInTurmoil makes random changes and decisions. It fails if a search does not confirm a
// cached decision, and returns the number of cached decisions.
func decideInTurmoil(t *testing.T, seed uint64, steps int, queues []string) (repeated int) {
	t.Helper()
	r := newRigWith(t, plainYAML, nil, nodes(3, "4")...)
	c := &turmoil{
		rig: r, rnd: rand.New(rand.NewPCG(seed, 1)), used: make(map[string]int), queues: queues,
		pods: make(map[string]*corev1.Pod), promised: make(map[string]*corev1.Pod),
	}
	probes := []*corev1.Pod{pod("p-0", "", "2", 10), pod("p-1", "", "4", 10), pod("p-2", "", "1", 1), pod("p-3", "", "3", 30)}
	for i, queue := range queues {
		r.sched.QueueSet(limitedQueue(queue, "100"))
		probes = append(probes, ofQueue(queue, pod("q-"+queue, "", fmt.Sprint(2+i), 10)))
		r.sched.quotas.Charge(probes[len(probes)-1], queue)
	}
	decide := func(probe *corev1.Pod) *cycleDecision {
		r.snapshot()
		made, err := r.plugin.decide(t.Context(), r.plugin.podPreemptor(probe))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for i := range steps {
		c.disturb(fmt.Sprintf("r-%d", i))
		for _, probe := range probes {
			if !decide(probe).repeated {
				continue
			}
			repeated++
			kept := r.plugin.refusals
			r.plugin.refusals = noRoomCache{}
			want := decide(probe)
			// An event between the two decisions may have invalidated the cached one.
			r.plugin.refusals = kept
			if want.decision.Outcome != core.Infeasible && decide(probe).repeated {
				t.Fatalf("seed %d, step %d: %s is told no again, and a search says %s: %s", seed, i, probe.Name, want.decision.Outcome, want.decision.Message)
			}
		}
	}
	return repeated
}
