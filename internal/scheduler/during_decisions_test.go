package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// looking is a Recorder that calls a function at the beginning of each decision.
type looking struct {
	noRecorder
	looks func()
}

// Looks is part of Recorder.
func (l *looking) Looks() { l.looks() }

// TestQueueThatGoesWhileAGangIsPlanned checks that a gang is not placed if its queue is deleted
// during planning, when there are no reservations to release yet.
func TestQueueThatGoesWhileAGangIsPlanned(t *testing.T) {
	t.Parallel()
	l := &looking{looks: func() {}}
	r := newRigOn(t, clientWith(nodes(2, "1")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil, func(in *Inputs) { in.Recorder = l })
	r.sched.QueueSet(limitedQueue("a", "8"))
	r.sched.QueueSet(limitedQueue("other", "8"))
	r.queuedGang("g", "a", 2)
	l.looks = func() {
		l.looks = func() {}
		r.sched.QueueDeleted(confirmed("a"))
	}
	r.create(members("g", 2, "1", 0)...)
	r.eventually("the gang has its turn", func() bool { return len(r.active()) > 0 })
	r.cycles()
	if r.sched.gangs.Planned(gangKey(key("g"))) > 0 || !r.sched.reserved.Empty() || r.waiting() > 0 {
		t.Error("it is planned")
	}
	if got := r.sched.gangs.Verdict(gangKey(key("g"))).Reason; got != v1alpha1.ReasonQueueNotFound {
		t.Errorf("it says %q", got)
	}
}

// isIn reports whether the informer has the pod, and the pod is a member of the group.
func isIn(r *rig, group types.NamespacedName, pod *corev1.Pod) bool {
	now, ok := r.sched.index.PodOf(podKey(pod))
	if !ok {
		return false
	}
	of, isMember := r.sched.index.GroupOf(now)
	return isMember && of == group
}

// TestMemberThatComesWhileAGangIsDecided checks that a gang is retried for a member that arrives
// during a decision without room. At the event of the member, the gang has no verdict yet.
func TestMemberThatComesWhileAGangIsDecided(t *testing.T) {
	t.Parallel()
	l := &looking{looks: func() {}}
	r := newRigOn(t, clientWith(nodes(1, "1")...), &groups{all: map[types.NamespacedName]*gang.Group{}}, schedulerYAML, nil, func(in *Inputs) { in.Recorder = l })
	r.gangOf("g", 1, 0)
	l.looks = func() {
		l.looks = func() {}
		r.create(pod("small", "g", "1", 0))
		// When the engine knows the member, the handlers of this package have handled its event.
		r.eventually("the engine knows the member", func() bool {
			small, err := r.sched.index.Pods.Pods("ns").Get("small")
			return err == nil && r.sched.engine.IsPresent(podKey(small))
		})
	}
	r.create(pod("large", "g", "2", 0))
	r.eventually("the small member is placed", func() bool { r.cycles(); return r.nodeOf("small") != "" })
}

// TestRoomFreedBetweenFilterAndDecision checks a single pod that Filter rejects because of a
// reservation. The reservation ends after Filter, and before PostFilter decides. The decision then
// finds free room, so the pod must be retried: no later event does that.
func TestRoomFreedBetweenFilterAndDecision(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]bool{"before the cycle": false, "between Filter and the decision": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &looking{looks: func() {}}
			r := newRigOn(t, clientWith(nodes(2, "1")...), noGroups(), schedulerYAML, nil, func(in *Inputs) { in.Recorder = l })
			r.gangOf("h", 2, 10)
			r.create(on(pod("v", "", "1", 0), "node-1"))
			// The priority of the members themselves is low. So the framework does not retry p when
			// their nominations are removed from the API.
			r.create(members("h", 2, "1", 0)...)
			r.eventually("room is reserved", func() bool {
				r.cycles()
				return len(r.sched.reserved.On("node-0")) == 1 && len(r.sched.reserved.On("node-1")) == 1
			})
			ends := func() {
				r.groups.drop(key("h"))
				r.sched.GroupChanged(key("h"))
				if !r.sched.reserved.Empty() {
					t.Error("Room is still reserved")
				}
			}
			tried := false
			if during {
				l.looks = func() {
					l.looks = func() {}
					tried = true
					ends()
				}
			} else {
				ends()
			}
			r.create(pod("p", "", "1", 5))
			r.eventually("it is on the free node", func() bool { r.cycles(); return r.nodeOf("p") == "node-0" })
			if tried != during {
				t.Errorf("A decision was made during the release: %t, want %t", tried, during)
			}
		})
	}
}
