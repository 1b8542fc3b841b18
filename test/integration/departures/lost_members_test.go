package departures

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// heals and healsBriefly are the names of two profiles. A gang with fewer than minCount members
	// becomes stale after staleTimeout. The scheduler reserves room for a lost member: for a minute
	// in heals, and for healTimeout in healsBriefly.
	heals, healsBriefly       = "heals", "heals-briefly"
	staleTimeout, healTimeout = 8 * time.Second, 8 * time.Second
)

// member creates a member of a gang. It needs a whole node.
func (e *env) member(gang, profile string, number int) {
	e.Helper()
	pod := stage.NewPod(e.Namespace, fmt.Sprintf("%s-%d", gang, number), "mid", 4)
	pod.Spec.SchedulerName = profile
	e.Groups.Join(pod, gang)
	e.Create(pod)
}

// gangOfThree creates a gang with minCount 3 and three nodes. It waits until each node runs a
// member.
func (e *env) gangOfThree(name, profile string) {
	e.Helper()
	e.AddNodes(4, name+"x", name+"y", name+"z")
	e.CreateGroup(stage.Group{Name: name, MinCount: 3, Priority: "mid"})
	for i := range 3 {
		e.member(name, profile, i)
	}
	e.Runs(name+"-", 3)
}

// loseNodeOf deletes the node of a pod, and then the pod, as the controllers of a cluster would do.
func (e *env) loseNodeOf(pod string) {
	e.Helper()
	if err := e.Kube.CoreV1().Nodes().Delete(e.Context(), e.Pod(pod).Spec.NodeName, metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
	now := int64(0)
	if err := e.Kube.CoreV1().Pods(e.Namespace).Delete(e.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		e.Logf("Delete %s: %v", pod, err)
	}
	e.Gone(pod)
}

// phases returns the phases of the PodGroups a and b.
func (e *env) phases(ctx context.Context) []v1alpha1.PodGroupPhase {
	out := make([]v1alpha1.PodGroupPhase, 2)
	for i, name := range []string{"a", "b"} {
		if pg, ok := e.PodGroup(ctx, name).(*v1alpha1.PodGroup); ok && pg != nil {
			out[i] = pg.Status.Phase
		}
	}
	return out
}

// placed returns the number of pods with a node, by the first letter of their names.
func (e *env) placed(ctx context.Context) map[string]int {
	out := map[string]int{}
	for _, pod := range e.AllPods(ctx) {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			out[pod.Name[:1]]++
		}
	}
	return out
}

// TestTwoGangsBelowMinCount tests two gangs that have lost one of three members each, together with
// its node. One gang must get three members again:
//
//   - Without free room, the other gang is evicted as a whole.
//   - With room for one pod, the other gang keeps its two members.
//   - With room for one pod, and another pod that waits, the other gang is evicted.
func TestTwoGangsBelowMinCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free, waits int
		// left is the number of members that the other gang has at the end.
		left int
	}{
		"no room":           {},
		"room for one more": {free: 1, left: 2},
		"room for one more, and a pod that waits": {free: 1, waits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.gangOfThree("a", heals)
			e.gangOfThree("b", heals)
			e.loseNodeOf("a-2")
			e.loseNodeOf("b-2")
			e.Eventually("both are degraded", func(ctx context.Context) string {
				if got := e.phases(ctx); !slices.Equal(got, []v1alpha1.PodGroupPhase{v1alpha1.PodGroupDegraded, v1alpha1.PodGroupDegraded}) {
					return fmt.Sprintf("phases %v", got)
				}
				return ""
			})
			for range c.waits {
				e.Create(stage.NewPod(e.Namespace, "lone", "mid", 4))
			}
			if c.free > 0 {
				e.AddNodes(4, "spare")
			}
			e.member("a", heals, 3)
			e.member("b", heals, 3)
			want := []map[string]int{{"a": 3, "b": c.left, "l": c.waits}, {"a": c.left, "b": 3, "l": c.waits}}
			var is int
			e.Eventually("one is whole", func(ctx context.Context) string {
				placed := e.placed(ctx)
				is = slices.IndexFunc(want, func(w map[string]int) bool {
					return placed["a"] == w["a"] && placed["b"] == w["b"] && placed["l"] == w["l"]
				})
				if is < 0 {
					return fmt.Sprintf("placed %v, phases %v", placed, e.phases(ctx))
				}
				return ""
			})
			e.NeverFor(staleTimeout+4*time.Second, time.Second, "that changes", func(ctx context.Context) string {
				if got := e.placed(ctx); got["a"] != want[is]["a"] || got["b"] != want[is]["b"] || got["l"] != want[is]["l"] {
					return fmt.Sprintf("placed %v, want %v", got, want[is])
				}
				return ""
			})
			if got := e.phases(e.Context())[is]; got != v1alpha1.PodGroupRunning {
				t.Errorf("The whole gang is %s, want %s", got, v1alpha1.PodGroupRunning)
			}
		})
	}
}

// waitingPod creates a pod that has the priority of the gangs and finds no room. It returns after a
// second, so that pods created later are younger.
func (e *env) waitingPod() {
	e.Helper()
	e.Create(stage.NewPod(e.Namespace, "lone", "mid", 4))
	e.WaitsSaying("lone")
	created := e.Pod("lone").CreationTimestamp.Time
	// Creation times are rounded to seconds.
	e.Eventually("a second has passed", func(context.Context) string {
		if time.Since(created) < 1100*time.Millisecond {
			return "it has not"
		}
		return ""
	})
}

func (e *env) hasNode(ctx context.Context, name string) bool {
	pod := e.Find(ctx, name)
	return pod != nil && pod.Spec.NodeName != ""
}

// TestLostMemberGoesFirst tests a gang that has lost a member, and a waiting pod of the same
// priority. When a node is added, the scheduler must reserve the room of this node for the lost
// member, before the replacement exists. The replacement must get the room, although the waiting
// pod is older.
func TestLostMemberGoesFirst(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.gangOfThree("a", heals)
	e.waitingPod()
	e.loseNodeOf("a-2")
	e.AddNodes(4, "spare")
	e.WaitsSaying("lone", "room on node "+e.NodeName("spare")+" is reserved for "+e.Namespace+"/a (priority 500)")
	waits := func(ctx context.Context) string {
		if e.hasNode(ctx, "lone") {
			return "it has a node"
		}
		return ""
	}
	e.NeverFor(2*time.Second, 200*time.Millisecond, "the lone pod waits", waits)
	e.member("a", heals, 3)
	e.Runs("a-", 3)
	e.NeverFor(2*time.Second, 200*time.Millisecond, "the lone pod waits", waits)
}

// TestRoomForLostMemberExpires checks that the scheduler reserves room for a lost member for
// healTimeout, and then gives it to a waiting pod.
func TestRoomForLostMemberExpires(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.gangOfThree("a", healsBriefly)
	e.waitingPod()
	lost := time.Now()
	e.loseNodeOf("a-2")
	e.AddNodes(4, "spare")
	e.Eventually("the lone pod has the room", func(ctx context.Context) string {
		if !e.hasNode(ctx, "lone") {
			return "it waits"
		}
		return ""
	})
	c := podCondition(e.Pod("lone"), corev1.PodScheduled)
	if c == nil || c.LastTransitionTime.Time.Before(lost.Add(healTimeout-2*time.Second)) {
		t.Errorf("The pod was scheduled %v after the loss, want the room to be kept for %v", c, healTimeout)
	}
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if at < 0 {
		return nil
	}
	return &pod.Status.Conditions[at]
}
