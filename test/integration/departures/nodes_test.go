package departures

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

func (e *env) removeNode(short string) {
	e.Helper()
	if err := e.Kube.CoreV1().Nodes().Delete(e.Context(), e.NodeName(short), metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
}

func (e *env) patchNode(short, patch string) {
	e.Helper()
	if _, err := e.Kube.CoreV1().Nodes().Patch(e.Context(), e.NodeName(short), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		e.Fatal(err)
	}
}

// ways maps a description to a function that makes a node unusable.
var ways = map[string]func(*env, string){
	"it is deleted":  (*env).removeNode,
	"it is cordoned": func(e *env, short string) { e.patchNode(short, `{"spec":{"unschedulable":true}}`) },
	"it is tainted": func(e *env, short string) {
		e.patchNode(short, `{"spec":{"taints":[{"key":"example.com/broken","effect":"NoSchedule"}]}}`)
	},
}

// preempting creates full nodes and two preempting pods. It waits until each preempting pod is
// nominated to a node. A finalizer keeps the evicted pods on these nodes. preempting returns the
// nominated nodes.
func (e *env) preempting(isGang bool, nodes ...string) (promised []string) {
	e.Helper()
	e.AddNodes(4, nodes...)
	for _, node := range nodes {
		e.running("victim-"+node, "low", node, stage.Hold)
	}
	e.Cleanup(e.letGo)
	e.urgent(2, isGang)
	e.Eventually("it waits for two victims, with two nominations", func(ctx context.Context) string {
		promised = e.nominated(ctx)
		if going := e.Terminating(ctx); len(going) != 2 || len(promised) != 2 || promised[0] == promised[1] {
			return fmt.Sprintf("%v go, nominated are %v", going, promised)
		}
		return ""
	})
	return promised
}

// TestPromiseOnALostNode tests a preemptor whose reserved room is on a node that is lost. Within
// seconds, the scheduler must reserve room on another node, and evict one more pod. The victims on
// the lost node still exist. The preemptor runs after the victims on its new nodes are gone.
func TestPromiseOnALostNode(t *testing.T) {
	t.Parallel()
	for way, lose := range ways {
		for kind, isGang := range map[string]bool{"a gang": true, "pods": false} {
			t.Run(way+", "+kind, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				promised := e.preempting(isGang, "a", "b", "c", "d")
				lost, kept := promised[0], promised[1]
				lose(e, lost)
				e.soon("it is planned again", func(ctx context.Context) string {
					now, going := e.nominated(ctx), e.Terminating(ctx)
					if len(now) != 2 || slices.Contains(now, lost) || !slices.Contains(now, kept) || len(going) < 3 {
						return fmt.Sprintf("nominated are %v, %v go", now, going)
					}
					return ""
				})
				for _, name := range e.Terminating(t.Context()) {
					if name != "victim-"+lost {
						e.LetGo(name)
					}
				}
				e.Runs("urgent", 2)
				for _, pod := range e.Pods(t.Context(), "urgent") {
					if e.short(pod.Spec.NodeName) == lost {
						e.Errorf("%s is on %s", pod.Name, lost)
					}
				}
				if left := e.Pods(t.Context(), "victim"); len(left) != 1 || e.Find(t.Context(), "victim-"+lost) == nil {
					e.Errorf("%d victims stay, want the one that was not taken; the one on the lost node was not to be waited for", len(left))
				}
			})
		}
	}
}

// TestPromiseOnTheLastNode checks that the scheduler releases all reservations when the last node
// is lost. Without nodes, the framework runs no scheduling cycles, so no cycle can release them.
func TestPromiseOnTheLastNode(t *testing.T) {
	t.Parallel()
	e := alone(t)
	nodes := []string{"a", "b", "c", "d"}
	e.preempting(true, nodes...)
	for _, node := range nodes {
		e.removeNode(node)
	}
	e.soon("nothing is promised", func(ctx context.Context) string {
		if now := e.nominated(ctx); len(now) > 0 {
			return fmt.Sprintf("nominated are %v", now)
		}
		c := e.Condition(ctx, "urgent", v1alpha1.ConditionPodGroupScheduled)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason == v1alpha1.ReasonPreempting {
			return fmt.Sprintf("the condition is %+v", c)
		}
		return ""
	})
	e.AddNodes(4, "e", "f")
	e.Runs("urgent", 2)
}
