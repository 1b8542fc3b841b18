package scheduler

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
)

// said is a Statuses that records the conditions that a scheduler writes outside cycles.
type said struct {
	r *rig

	mu  sync.Mutex
	all map[string][]string
}

// Say is part of Statuses.
func (s *said) Say(p *corev1.Pod, c corev1.PodCondition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string][]string{}
	}
	s.all[p.Name] = append(s.all[p.Name], c.Message)
	now, err := s.r.client.CoreV1().Pods(p.Namespace).Get(s.r.t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		return
	}
	now = now.DeepCopy()
	now.Status.Conditions = []corev1.PodCondition{c}
	if _, err := s.r.client.CoreV1().Pods(p.Namespace).UpdateStatus(s.r.t.Context(), now, metav1.UpdateOptions{}); err != nil {
		s.r.t.Error(err)
	}
}

// listener is a Statuses that forwards conditions to a said, once the test calls listen.
type listener struct {
	mu sync.Mutex
	to *said
}

func (l *listener) set(to *said) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
}

// Say is part of Statuses.
func (l *listener) Say(pod *corev1.Pod, condition corev1.PodCondition) {
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	if to != nil {
		to.Say(pod, condition)
	}
}

// Bound is part of Statuses.
func (*listener) Bound(types.UID) {}

// listen starts to record the conditions that the rig's scheduler writes outside cycles.
func (r *rig) listen() *said {
	// On a standby, the main loop does not report to members, so the test decides when reports are
	// written.
	r.sched.retries.leads.Store(false)
	s := &said{r: r}
	r.listener.set(s)
	return s
}

// tell writes the conditions that are due after some more time.
func (r *rig) tell(after time.Duration) {
	r.sched.reporter.ReportMembers(r.sched.clock.Now().Add(after))
}

// hasSpoken reports whether the framework has written the condition of a member of the gang "g"
// that found no room in its own cycle.
func (r *rig) hasSpoken() bool {
	m := r.sched.placements.Members(key("g"))
	return slices.ContainsFunc(m.Pending, func(pod *corev1.Pod) bool {
		c := cluster.ScheduledCondition(pod)
		return c != nil && c.Reason == corev1.PodReasonUnschedulable
	})
}

// TestEveryMemberThatFindsNoRoomSaysSo checks the conditions of all members of a gang without room.
// In some cases, the gang preempts.
func TestEveryMemberThatFindsNoRoomSaysSo(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		victims  []*corev1.Pod
		minCount int
		wantTold int
		want     string
	}{
		"none can be made": {minCount: 5, wantTold: 4, want: "needs"},
		"room is being made": {
			victims:  []*corev1.Pod{on(pod("v-0", "", "2", 0), "node-0"), on(pod("v-1", "", "2", 0), "node-0")},
			minCount: 4, wantTold: 4, want: "gang of 4 fits on node-0 once 2 pods are gone",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "4"))
			s := r.listen()
			r.create(c.victims...)
			r.gangOf("g", c.minCount, 10)
			r.create(members("g", 5, "1", 10)...)
			r.eventually("it can be planned", func() bool { return len(r.active()) > 0 })
			decided := r.sched.clock.Now()
			r.cycles()
			r.eventually("the framework has spoken of the leader", r.hasSpoken)
			r.sched.reporter.ReportMembers(decided.Add(engine.ReportDelay - time.Millisecond))
			if len(s.all) != 0 {
				t.Errorf("%v is said at once", s.all)
			}
			r.tell(2 * engine.ReportDelay)
			if len(s.all) != c.wantTold {
				t.Errorf("%d members are told, want %d: %v", len(s.all), c.wantTold, s.all)
			}
			for name, messages := range s.all {
				if len(messages) != 1 || !strings.Contains(messages[0], c.want) {
					t.Errorf("%s is told %q, want %q", name, messages, c.want)
				}
			}
		})
	}
}

// TestSurplusThatFindsNoRoomSaysSo checks the conditions of surplus members without room, after the
// needed members were placed.
func TestSurplusThatFindsNoRoomSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "2"))
	s := r.listen()
	r.gangOf("g", 2, 10)
	r.create(members("g", 5, "1", 10)...)
	r.eventually("it is placed and the surplus has been tried", func() bool {
		r.cycles()
		return r.bound(5) == 2 && r.sched.gangs.Reports() == 1 && r.sched.gangs.Leader(gangKey(key("g"))) != "" && len(r.active()) == 0
	})
	r.eventually("the framework has spoken of the leader", r.hasSpoken)
	r.eventually("the two that do not lead say so", func() bool { r.tell(2 * engine.ReportDelay); return len(s.all) == 2 })
	for name, messages := range s.all {
		if !strings.Contains(messages[0], "needs 1 cpu for 1 member; no node has them") || r.nodeOf(name) != "" {
			t.Errorf("%s on %q is told %q", name, r.nodeOf(name), messages)
		}
	}
}

// TestGangThatIsPlacedAtOnce checks that no condition is written for the members of a placed gang,
// even if the gang was blocked before.
func TestGangThatIsPlacedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, node("node-0", "4"))
	s := r.listen()
	full := on(pod("full", "", "1", 100), "node-0")
	r.create(full)
	r.gangOf("g", 4, 10)
	all := members("g", 4, "1", 10)
	r.create(all...)
	r.eventually("it can be planned", func() bool { return len(r.active()) > 0 })
	r.cycles()
	r.remove(full)
	r.eventually("it is placed", func() bool { r.cycles(); return r.nodeOf("g-0") != "" })
	r.waitBound("g-1", "g-2", "g-3")
	r.tell(time.Minute)
	if len(s.all) != 0 {
		t.Errorf("%v is said", s.all)
	}
}
