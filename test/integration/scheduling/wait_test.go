package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// eventually waits until condition returns "". It fails the test with what it returned last, and with how
// things stand.
func (e *env) eventually(what string, condition func(ctx context.Context) string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	last := ""
	err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		// Not with the context that ends: a client that sees a deadline coming gives up before it.
		last = condition(e.t.Context())
		return last == "", nil
	})
	if err != nil {
		e.t.Fatalf("%s: not within %v: %s\n%s", what, patience, last, e.dump())
	}
}

// never watches for a bounded time, and fails the test as soon as violation returns anything but "".
func (e *env) never(what string, violation func(ctx context.Context) string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), watchFor)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		if v := violation(e.t.Context()); v != "" {
			return false, errors.New(v)
		}
		return false, nil
	})
	if !wait.Interrupted(err) {
		e.t.Fatalf("%s, but: %v\n%s", what, err, e.dump())
	}
}

// pods lists the pods of the test, or those of one of its groups.
func (e *env) pods(ctx context.Context, group string) []corev1.Pod {
	e.t.Helper()
	list, err := e.kube.CoreV1().Pods(e.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.t.Fatalf("list pods: %v", err)
	}
	if group == "" {
		return list.Items
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return e.api.memberOf(&pod) != group })
}

// pod reads one pod, or returns nil if there is none.
func (e *env) pod(ctx context.Context, name string) *corev1.Pod {
	all := e.pods(ctx, "")
	if i := slices.IndexFunc(all, func(p corev1.Pod) bool { return p.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// bound counts the pods of a group that have a node and are not on their way out.
func (e *env) bound(ctx context.Context, group string) int {
	n := 0
	for _, pod := range e.pods(ctx, group) {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// waitBound waits until exactly that many pods of a group have a node.
func (e *env) waitBound(group string, want int) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("%d pods of %s have a node", want, group), func(ctx context.Context) string {
		if got := e.bound(ctx, group); got != want {
			return fmt.Sprintf("%d have", got)
		}
		return ""
	})
}

// waitRunning waits until the pods run, so that they have a start time and their nodes know them.
func (e *env) waitRunning(names ...string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("pods %v run", names), func(ctx context.Context) string {
		for _, name := range names {
			pod := e.pod(ctx, name)
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

// staysUnbound watches that no pod of a group gets a node.
func (e *env) staysUnbound(group string) {
	e.t.Helper()
	e.never("no pod of "+group+" gets a node", func(ctx context.Context) string {
		if n := e.bound(ctx, group); n > 0 {
			return fmt.Sprintf("%d have one", n)
		}
		return ""
	})
}

// nodeOf is the short name of the node that a pod is on.
func (e *env) nodeOf(name string) string {
	e.t.Helper()
	pod := e.pod(e.t.Context(), name)
	if pod == nil {
		e.t.Fatalf("pod %s does not exist\n%s", name, e.dump())
	}
	return strings.TrimPrefix(pod.Spec.NodeName, e.ns+"-")
}

// podGroup reads a PodGroup, or returns nil if there is none.
func (e *env) podGroup(ctx context.Context, name string) client.Object {
	e.t.Helper()
	pg := e.emptyGroup(name)
	err := e.objects.Get(ctx, client.ObjectKeyFromObject(pg), pg)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		e.t.Fatalf("get PodGroup %s: %v", name, err)
	}
	return pg
}

// condition reads a condition of a PodGroup, or returns nil.
func (e *env) condition(ctx context.Context, group, kind string) *metav1.Condition {
	pg := e.podGroup(ctx, group)
	if pg == nil {
		return nil
	}
	return meta.FindStatusCondition(conditionsOf(pg), kind)
}

// waitCondition waits until a condition of a PodGroup has that reason and mentions all of the phrases.
func (e *env) waitCondition(group, kind string, status metav1.ConditionStatus, reason string, phrases ...string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("PodGroup %s has condition %s=%s, %s", group, kind, status, reason), func(ctx context.Context) string {
		c := e.condition(ctx, group, kind)
		switch {
		case c == nil:
			return "it has no such condition"
		case c.Status != status || c.Reason != reason || !mentions(c.Message, phrases):
			return fmt.Sprintf("it is %s, %s: %s (wanted %q)", c.Status, c.Reason, c.Message, phrases)
		}
		return ""
	})
}

// waitEvent waits until an event on a pod or PodGroup has that reason and mentions all of the phrases.
func (e *env) waitEvent(object, reason string, phrases ...string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("event %s on %s that mentions %q", reason, object, phrases), func(ctx context.Context) string {
		seen := []string{}
		for _, ev := range e.events(ctx) {
			if ev.InvolvedObject.Name != object {
				continue
			}
			if ev.Reason == reason && mentions(ev.Message, phrases) {
				return ""
			}
			seen = append(seen, ev.Reason+": "+ev.Message)
		}
		return fmt.Sprintf("seen: %q", seen)
	})
}

func (e *env) events(ctx context.Context) []corev1.Event {
	list, err := e.kube.CoreV1().Events(e.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return list.Items
}

// mentions reports whether a text has all of the phrases in it.
func mentions(text string, phrases []string) bool {
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// groups lists the PodGroups of the test, of both APIs.
func (e *env) groups(ctx context.Context) []client.Object {
	var out []client.Object
	var own v1alpha1.PodGroupList
	if err := e.objects.List(ctx, &own, client.InNamespace(e.ns)); err == nil {
		for i := range own.Items {
			out = append(out, &own.Items[i])
		}
	}
	var theirs schedulingv1alpha2.PodGroupList
	if err := e.objects.List(ctx, &theirs, client.InNamespace(e.ns)); err == nil {
		for i := range theirs.Items {
			out = append(out, &theirs.Items[i])
		}
	}
	return out
}

// dump says how things stand in the namespace, for failures.
func (e *env) dump() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), 5*time.Second)
	defer cancel()
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %s:\n", e.ns)
	for _, pod := range e.pods(ctx, "") {
		fmt.Fprintf(&b, "  pod %s: %s on %q, nominated %q, deleting %v\n", pod.Name, pod.Status.Phase,
			pod.Spec.NodeName, pod.Status.NominatedNodeName, pod.DeletionTimestamp != nil)
	}
	for _, pg := range e.groups(ctx) {
		for _, c := range conditionsOf(pg) {
			fmt.Fprintf(&b, "  PodGroup %s: %s=%s %s: %s\n", pg.GetName(), c.Type, c.Status, c.Reason, c.Message)
		}
	}
	events := e.events(ctx)
	for _, ev := range events[max(0, len(events)-15):] {
		fmt.Fprintf(&b, "  event %s on %s: %s\n", ev.Reason, ev.InvolvedObject.Name, ev.Message)
	}
	return b.String()
}
