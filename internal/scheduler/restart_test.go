package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// boundBy returns a member that an earlier leader bound to a node, with a seal, when its gang had a
// minCount.
func boundBy(t *testing.T, member *corev1.Pod, node string, minCount int, at time.Time) *corev1.Pod {
	t.Helper()
	seal := gang.Seal{Group: member.Labels[v1alpha1.LabelPodGroup], Priority: *member.Spec.Priority, MinCount: minCount}
	text, err := seal.Text()
	if err != nil {
		t.Fatal(err)
	}
	member.Annotations = map[string]string{v1alpha1.AnnotationPlacedAs: text}
	member.Status.Phase = corev1.PodRunning
	member.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	return on(member, node)
}

// TestRestartAmidBindings starts a scheduler when an earlier leader has bound none, some or all of
// the three members of a gang. A rival of equal priority is older than the members without a node.
func TestRestartAmidBindings(t *testing.T) {
	t.Parallel()
	reported := time.Now().Add(-time.Minute).Truncate(time.Second)
	for name, c := range map[string]struct {
		// bound is the number of members with a node. sealed is the minCount in their seals.
		bound, sealed int
		// unreported is true if the status describes another spec.
		unreported bool
		// taken is true if the rival already has the node of the last member, so that another
		// rival waits.
		taken bool
		// want are the members with a node at the end. evicted are those that an order evicts.
		want, evicted string
	}{
		"all were assumed at Permit":                    {sealed: 3, want: ""},
		"some are bound, there is room":                 {bound: 2, sealed: 3, want: "g-0 g-1 g-2"},
		"some are bound, the room is taken":             {bound: 2, sealed: 3, taken: true, want: "g-0 g-1", evicted: "g-0 g-1"},
		"all are bound":                                 {bound: 3, sealed: 3, want: "g-0 g-1 g-2"},
		"minCount was raised":                           {bound: 2, sealed: 2, taken: true, want: "g-0 g-1"},
		"some are bound, the status is of another spec": {bound: 2, sealed: 3, unreported: true, taken: true, want: "g-0 g-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := nodes(3, "1")
			old := func(p *corev1.Pod) *corev1.Pod {
				p.CreationTimestamp = metav1.NewTime(reported.Add(-time.Minute))
				return p
			}
			rival := old(pod("rival", "", "1", 5))
			if c.taken {
				objects = append(objects, old(on(pod("first", "", "1", 5), "node-2")))
			}
			var waiting []*corev1.Pod
			for i, member := range members("g", 3, "1", 5) {
				member.CreationTimestamp = metav1.NewTime(reported)
				if i < c.bound {
					objects = append(objects, runtime.Object(boundBy(t, member, fmt.Sprint("node-", i), c.sealed, reported.Add(time.Second))))
				} else {
					waiting = append(waiting, member)
				}
			}
			g := &gang.Group{Key: key("g"), UID: "uid-g", MinCount: 3, Priority: rival.Spec.Priority, UnscheduledSince: reported}
			if c.unreported {
				g.UnscheduledSince = time.Time{}
			}
			known := noGroups()
			known.set(g)
			r := newRigOn(t, clientWith(objects...), known, schedulerYAML+"  pluginConfig: [{name: Reprieve, args: {gang: {staleTimeout: 1s}}}]\n", nil)
			// A scheduler leads once its lists are complete. The rig began to lead before.
			r.eventually("the lists are complete", r.sched.HasSynced)
			r.sched.Lead()
			r.create(append([]*corev1.Pod{rival}, waiting...)...)
			if c.evicted != "" {
				r.eventually("the gang is evicted", func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
			} else {
				r.never("the gang is evicted", 2500*time.Millisecond, func() bool { r.cycles(); return len(r.evictor.orders) > 0 })
			}
			var got []string
			for _, member := range members("g", 3, "1", 5) {
				if r.nodeOf(member.Name) != "" {
					got = append(got, member.Name)
				}
			}
			victims := r.victims()
			if strings.Join(got, " ") != c.want || strings.Join(victims, " ") != c.evicted {
				t.Errorf("%v have a node, and %v are evicted; want %q and %q", got, victims, c.want, c.evicted)
			}
		})
	}
}

// TestBindingThatFailsInAGang checks a gang of three with a member whose binding fails for good. The
// gang is degraded, although its status never reported enough members. So work of equal priority
// may evict the other members after staleTimeout.
func TestBindingThatFailsInAGang(t *testing.T) {
	t.Parallel()
	r := newRigArgs(t, "{gang: {staleTimeout: 1s, healTimeout: 0s}}", nodes(3, "1")...)
	r.gangOf("g", 3, 5).UnscheduledSince = time.Now().Add(-time.Minute)
	three := members("g", 3, "1", 5)
	three[2].Annotations = map[string]string{failsAt: atBind}
	r.create(three...)
	r.waitBound("g-0", "g-1")
	r.create(pod("first", "", "1", 5), pod("second", "", "1", 5))
	r.eventually("the gang is evicted", func() bool {
		r.cycles()
		return len(r.evictor.orders) > 0
	})
	if got := strings.Join(r.victims(), " "); got != "g-0 g-1" {
		t.Errorf("%s are evicted", got)
	}
}
