package scheduling

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pods returns the pods of a group in the test's namespace.
func (e *env) pods(ctx context.Context, group string) []corev1.Pod {
	e.Helper()
	return slices.DeleteFunc(e.AllPods(ctx), func(pod corev1.Pod) bool { return e.Groups.MemberOf(&pod) != group })
}

// bound returns the number of a group's pods that have a node and are not terminating.
func (e *env) bound(ctx context.Context, group string) int {
	n := 0
	for _, pod := range e.pods(ctx, group) {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// waitBound waits until exactly want pods of a group have a node.
func (e *env) waitBound(group string, want int) {
	e.Helper()
	e.Eventually(fmt.Sprintf("%d pods of %s have a node", want, group), func(ctx context.Context) string {
		if got := e.bound(ctx, group); got != want {
			return fmt.Sprintf("%d have", got)
		}
		return ""
	})
}

// waitRunning waits until the named pods run. A running pod has a start time.
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

// staysUnbound checks for some time that no pod of a group has a node.
func (e *env) staysUnbound(group string) {
	e.Helper()
	e.Never("no pod of "+group+" gets a node", func(ctx context.Context) string {
		if n := e.bound(ctx, group); n > 0 {
			return fmt.Sprintf("%d have one", n)
		}
		return ""
	})
}

// nodeOf returns the short name of the node of a pod.
func (e *env) nodeOf(name string) string {
	e.Helper()
	return strings.TrimPrefix(e.Pod(name).Spec.NodeName, e.Namespace+"-")
}
