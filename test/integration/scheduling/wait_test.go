package scheduling

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pods lists the pods of one of the test's groups.
func (e *env) pods(ctx context.Context, group string) []corev1.Pod {
	e.Helper()
	return slices.DeleteFunc(e.AllPods(ctx), func(pod corev1.Pod) bool { return e.Groups.MemberOf(&pod) != group })
}

// bound counts the pods of a group that have a node and do not terminate.
func (e *env) bound(ctx context.Context, group string) int {
	n := 0
	for _, pod := range e.pods(ctx, group) {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// waitBound waits until exactly the given number of pods of a group have a node.
func (e *env) waitBound(group string, want int) {
	e.Helper()
	e.Eventually(fmt.Sprintf("%d pods of %s have a node", want, group), func(ctx context.Context) string {
		if got := e.bound(ctx, group); got != want {
			return fmt.Sprintf("%d have", got)
		}
		return ""
	})
}

// waitRunning waits until the pods run, so that they have a start time.
func (e *env) waitRunning(names ...string) {
	e.Helper()
	e.Eventually(fmt.Sprintf("pods %v run", names), func(ctx context.Context) string {
		for _, name := range names {
			pod := e.Find(ctx, name)
			switch {
			case pod == nil:
				return name + " does not exist"
			case pod.Status.Phase != corev1.PodRunning:
				return name + " is " + string(pod.Status.Phase)
			}
		}
		return ""
	})
}

// staysUnbound checks for a while that no pod of a group gets a node.
func (e *env) staysUnbound(group string) {
	e.Helper()
	e.Never("no pod of "+group+" gets a node", func(ctx context.Context) string {
		if n := e.bound(ctx, group); n > 0 {
			return fmt.Sprintf("%d have one", n)
		}
		return ""
	})
}

// nodeOf returns the short name of a pod's node.
func (e *env) nodeOf(name string) string {
	e.Helper()
	return strings.TrimPrefix(e.Pod(name).Spec.NodeName, e.Namespace+"-")
}
