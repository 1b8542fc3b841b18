package preemption

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
)

// TestNobodyGoesBeforeTheWholeGangFits checks that no pod is evicted for a gang if only some of its
// members would fit (KEP-5710, "Delayed preemption").
func TestNobodyGoesBeforeTheWholeGangFits(t *testing.T) {
	t.Parallel()
	each(t, "three for two", true, func(e *env) {
		e.addNodes("a", 2, 4)
		victims := []unitSpec{
			{name: "victim-x", cpus: 4, priority: "low"},
			{name: "victim-y", cpus: 2, priority: "low", gang: 2},
		}
		e.createRunning(victims...)
		urgent := unitSpec{name: "urgent", cpus: 4, priority: "mid", gang: 3}
		e.create(urgent)
		e.waitRefused(urgent)
		e.Never("room for two is not made for three", func(context.Context) string {
			if got := len(e.deleted()) + e.intents(); got > 0 {
				return fmt.Sprintf("there are %d deletes and intents", got)
			}
			return ""
		})
		e.waitRunning(victims[0])
		e.waitRunning(victims[1])
		e.addNodes("b", 1, 4)
		e.waitRunning(urgent)
		e.waitDeletes(namesOf(victims...)...)
		if e.intents() == 0 {
			e.Error("a group has gone without an intent")
		}
	})
}

// intents returns the number of times that the scheduler has written a preemption to the status of
// PodGroups.
func (e *env) intents() int {
	n := 0
	for _, c := range e.proxy.Calls(turnstile.Request{Resource: "podgroups", Subresource: "status", Namespace: e.Namespace}) {
		if bytes.Contains(c.Body, []byte(v1alpha1.ConditionDisruptionTarget)) {
			n++
		}
	}
	return n
}

// TestVictimsDoNotIncrease keeps a victim terminating by a finalizer. While the preemptor waits for
// this victim, the scheduler must not evict another pod, even if the other pod has the same cost.
func TestVictimsDoNotIncrease(t *testing.T) {
	t.Parallel()
	const (
		held  = 30 * time.Second
		pause = 500 * time.Millisecond
	)
	for kind, gang := range map[string]int{"a pod": 0, "a gang": 2} {
		each(t, kind, gang > 0, func(e *env) {
			e.addNodes("a", 4, 4)
			e.addNodes("side", 1, 8)
			var all []unitSpec
			for i := range 4 {
				u := unitSpec{name: fmt.Sprintf("victim-%d", i), cpus: 4, priority: "low", zone: "a", held: true}
				e.createRunning(u)
				all = append(all, u)
			}
			urgent := unitSpec{name: "urgent", cpus: 4, priority: "mid", zone: "a", gang: gang}
			e.create(urgent)
			var taken []string
			e.Eventually("the victims are on their way out", func(ctx context.Context) string {
				taken = nil
				for _, pod := range e.AllPods(ctx) {
					if pod.DeletionTimestamp != nil {
						taken = append(taken, pod.Name)
					}
				}
				if len(taken) != len(urgent.names()) {
					return fmt.Sprintf("%v are", taken)
				}
				return ""
			})
			round := 0
			e.NeverFor(held, pause, "nobody else is taken", func(ctx context.Context) string {
				e.stir(round, 4)
				round++
				if got := e.deleted(); !slices.Equal(got, taken) {
					return fmt.Sprintf("in round %d %v are taken, want no more than %v", round, got, taken)
				}
				if got := e.standing(ctx, "urgent"); got != "" {
					return fmt.Sprintf("the preemptor is in zone %q before its victims have gone", got)
				}
				return ""
			})
			for _, name := range taken {
				e.LetGo(name)
			}
			e.waitRunning(urgent)
			if got := e.deleted(); !slices.Equal(got, taken) {
				e.Errorf("%v were taken, want no more than %v", got, taken)
			}
			for _, u := range all {
				if !slices.Contains(taken, u.name) {
					e.waitRunning(u)
				}
			}
		})
	}
}

// stir causes events that make the scheduler retry workloads: it creates a pod of low priority,
// deletes an older one, and changes labels of nodes.
func (e *env) stir(round, nodes int) {
	e.Helper()
	const living = 4
	e.create(unitSpec{name: fmt.Sprintf("passer-by-%d", round), cpus: 1, priority: "low", zone: "side"})
	if round >= living {
		e.remove(unitSpec{name: fmt.Sprintf("passer-by-%d", round-living)})
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"test.reprieve.dev/round":"%d"}}}`, round)
	for _, node := range []string{e.nodeName("a", round%nodes), e.nodeName("side", 0)} {
		if _, err := e.Kube.CoreV1().Nodes().Patch(e.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			e.Fatalf("label node %s: %v", node, err)
		}
	}
}

// TestPlacementThatStopsHolding makes the plan of a waiting preemptor invalid, for example by
// cordoning its node. The scheduler must plan again, and treat terminating pods as if they were
// gone.
func TestPlacementThatStopsHolding(t *testing.T) {
	t.Parallel()
	breaks := map[string]func(e *env, node string){
		"a node is cordoned": func(e *env, node string) {
			patch := []byte(`{"spec":{"unschedulable":true}}`)
			if _, err := e.Kube.CoreV1().Nodes().Patch(e.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				e.Fatalf("cordon node %s: %v", node, err)
			}
		},
		"a node is removed": func(e *env, node string) {
			now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
			if err := e.Kube.CoreV1().Nodes().Delete(e.Context(), node, now); err != nil {
				e.Fatalf("delete node %s: %v", node, err)
			}
		},
	}
	for kind, gang := range map[string]int{"a pod": 0, "a gang": 2} {
		for what, breakIt := range breaks {
			each(t, what+", "+kind, gang > 0, func(e *env) {
				e.addNodes("a", 4, 4)
				for i := range 4 {
					e.createRunning(unitSpec{name: fmt.Sprintf("victim-%d", i), cpus: 4, priority: "low", held: true})
				}
				urgent := unitSpec{name: "urgent", cpus: 4, priority: "mid", gang: gang}
				need := len(urgent.names())
				e.create(urgent)
				e.Eventually("the victims are on their way out", func(ctx context.Context) string {
					if got := e.leaving(ctx); len(got) != need {
						return fmt.Sprintf("%d of %d are", len(got), need)
					}
					return ""
				})
				broken := ""
				for _, node := range e.leaving(e.Context()) {
					broken = node
				}
				breakIt(e, broken)
				e.Eventually("one more is taken", func(context.Context) string {
					if got := e.deleted(); len(got) != need+1 {
						return fmt.Sprintf("%v were taken, want %d", got, need+1)
					}
					return ""
				})
				e.Never("and no more than that", func(context.Context) string {
					if got := e.deleted(); len(got) != need+1 {
						return fmt.Sprintf("%v were taken, want %d", got, need+1)
					}
					return ""
				})
				for _, name := range e.deleted() {
					e.LetGo(name)
				}
				e.waitRunning(urgent)
				for _, pod := range e.unit(e.Context(), "urgent") {
					if pod.Spec.NodeName == broken {
						e.Errorf("%s is on %s", pod.Name, broken)
					}
				}
				if got := e.deleted(); len(got) != need+1 {
					e.Errorf("%v were taken, want %d", got, need+1)
				}
			})
		}
	}
}

// leaving maps the names of terminating pods to their nodes.
func (e *env) leaving(ctx context.Context) map[string]string {
	out := map[string]string{}
	for _, pod := range e.AllPods(ctx) {
		if pod.DeletionTimestamp != nil {
			out[pod.Name] = pod.Spec.NodeName
		}
	}
	return out
}
