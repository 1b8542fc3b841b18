package podstatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
)

// TestWhatIsSaidIsRemembered checks that the Writer compares a new status with the status that it
// wrote last, not with the scheduler's cache, which is outdated.
func TestWhatIsSaidIsRemembered(t *testing.T) {
	stale := newPod("p")
	in(t, func(b *bench) {
		b.nominate(Nomination{Pod: stale, Node: "n"})
		b.nominate(Nomination{Pod: stale})
		b.expect("p: node n", "p: no node")
		b.nominate(Nomination{Pod: stale, Node: "m", ByFramework: true})
		b.says(stale, "no room", to("m"))
		b.expect("p: node m no room")
		b.says(stale, "no room", to("m"))
		b.says(stale, "no room", nil)
		b.expect()
		b.nominate(Nomination{Pod: stale})
		b.expect("p: no node")
		// When memory has passed, the written status is forgotten.
		time.Sleep(2 * memory)
		b.nominate(Nomination{Pod: stale})
		b.expect()
		if n := len(b.writer.slots); n != 0 {
			t.Errorf("%d pods are remembered", n)
		}
	}, stale)
}

// TestConditionThatHolds checks that an unchanged condition is not written. If only the message
// changes, the condition keeps its transition time.
func TestConditionThatHolds(t *testing.T) {
	pod := newPod("p")
	since := metav1.NewTime(time.Unix(1000, 0))
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no room",
		LastTransitionTime: since,
	}}
	in(t, func(b *bench) {
		b.says(pod, "no room", nil)
		b.expect()
		b.says(pod, "no room at all", nil)
		b.expect("p: no room at all")
		got, err := b.pods.CoreV1().Pods("ns").Get(b.t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c := got.Status.Conditions; len(c) != 1 || !c[0].LastTransitionTime.Equal(&since) {
			t.Errorf("The conditions are %+v", c)
		}
	}, pod)
}

// TestConditionsOfSeveralTypes checks that the latest condition of each type is written. A
// condition must not replace a condition of another type.
func TestConditionsOfSeveralTypes(t *testing.T) {
	t.Parallel()
	pod := newPod("p")
	says := func(b *bench, conditions ...*corev1.PodCondition) {
		b.t.Helper()
		b.saysAll(pod, conditions, nil)
	}
	cases := map[string]struct {
		do func(b *bench)
		// wantCalls lists the calls that must follow the calls that the function do has checked.
		wantCalls      []string
		wantConditions []string
	}{
		"two in one call": {
			do:             func(b *bench) { says(b, unscheduled("no room"), resized("later")) },
			wantCalls:      []string{"p: no room, later"},
			wantConditions: []string{"PodScheduled: no room", "PodResizePending: later"},
		},
		"two of one type in one call": {
			do:             func(b *bench) { says(b, unscheduled("no room"), unscheduled("no room at all")) },
			wantCalls:      []string{"p: no room at all"},
			wantConditions: []string{"PodScheduled: no room at all"},
		},
		"one following another": {
			do: func(b *bench) {
				says(b, unscheduled("no room"))
				b.expect("p: no room")
				says(b, resized("later"))
			},
			wantCalls:      []string{"p: later"},
			wantConditions: []string{"PodScheduled: no room", "PodResizePending: later"},
		},
		"two of which one is known": {
			do: func(b *bench) {
				says(b, unscheduled("no room"))
				b.expect("p: no room")
				says(b, unscheduled("no room"), resized("later"))
			},
			wantCalls:      []string{"p: later"},
			wantConditions: []string{"PodScheduled: no room", "PodResizePending: later"},
		},
		"several during a call": {
			do: func(b *bench) {
				b.answering(func(string) error {
					time.Sleep(5 * time.Second)
					return nil
				})
				says(b, unscheduled("no room"))
				synctest.Wait()
				says(b, resized("later"))
				says(b, unscheduled("no room at all"))
				time.Sleep(memory / 2)
			},
			wantCalls:      []string{"p: no room", "p: no room at all, later"},
			wantConditions: []string{"PodScheduled: no room at all", "PodResizePending: later"},
		},
		"one after a call that was lost with another": {
			do: func(b *bench) {
				b.answering(func(string) error { return errors.New("connection reset by peer") })
				says(b, unscheduled("no room"))
				b.expect("p: no room")
				b.answering(func(string) error { return nil })
				says(b, resized("later"))
			},
			wantCalls:      []string{"p: no node no room, later"},
			wantConditions: []string{"PodScheduled: no room", "PodResizePending: later"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bench) {
				c.do(b)
				b.expect(c.wantCalls...)
				got, err := b.pods.CoreV1().Pods("ns").Get(b.t.Context(), "p", metav1.GetOptions{})
				if err != nil {
					b.t.Fatal(err)
				}
				var conditions []string
				for _, condition := range got.Status.Conditions {
					conditions = append(conditions, fmt.Sprintf("%s: %s", condition.Type, condition.Message))
				}
				slices.Sort(conditions)
				slices.Sort(c.wantConditions)
				if !slices.Equal(conditions, c.wantConditions) {
					b.t.Errorf("The conditions are %q, want %q", conditions, c.wantConditions)
				}
			}, pod)
		})
	}
}

// TestLastWordWins checks that the latest status is written when the current call ends.
func TestLastWordWins(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		b.answering(func(string) error {
			time.Sleep(5 * time.Second)
			return nil
		})
		b.says(pod, "first", to("n"))
		synctest.Wait()
		b.says(pod, "second", to("m"))
		b.says(pod, "third", to("o"))
		if n := len(b.writer.Nominate([]Nomination{{Pod: pod, ByFramework: true}})); n != 0 {
			t.Errorf("%d claims for what the framework says", n)
		}
		b.says(pod, "fourth", to(""))
		time.Sleep(time.Minute / 2)
		b.expect("p: node n first", "p: no node fourth")
	}, pod)
}

// TestNoCallOnTheCycle checks that PatchPodStatus returns at once while a call is slow, and that a
// pod does not wait for the call of another pod.
func TestNoCallOnTheCycle(t *testing.T) {
	slow, quick := newPod("slow"), newPod("quick")
	in(t, func(b *bench) {
		b.answering(func(call string) error {
			if call == "slow: no room" {
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		start := time.Now()
		b.says(slow, "no room", nil)
		b.says(quick, "no room", nil)
		if took := time.Since(start); took != 0 {
			t.Errorf("It took %v", took)
		}
		b.expect("quick: no room")
		if err := b.bind(quick); err != nil || time.Since(start) != 0 {
			t.Errorf("Bound after %v: %v", time.Since(start), err)
		}
		time.Sleep(6 * time.Second)
		b.expect("bind quick", "slow: no room")
	}, slow, quick)
}

// TestBoundBeforeItsTurn checks that the nomination of a pod in Permit is written only if the pod
// waits longer than holdDelay.
func TestBoundBeforeItsTurn(t *testing.T) {
	soon, late := newPod("soon"), newPod("late")
	in(t, func(b *bench) {
		b.says(soon, "", to("n"))
		b.says(late, "", to("n"))
		time.Sleep(holdDelay / 2)
		b.expect()
		if err := b.bind(soon); err != nil {
			t.Error(err)
		}
		b.expect("bind soon")
		time.Sleep(holdDelay)
		b.expect("late: node n")
	}, soon, late)
}

// TestSaidOutsideOfTheCycle checks that conditions from Say and from cycles replace each other. A
// condition must not be written twice. A condition must keep its transition time as long as its
// status does not change.
func TestSaidOutsideOfTheCycle(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		b.writer.Say(pod, *unscheduled("no room for the gang"))
		b.expect("p: no room for the gang")
		since := b.condition("p").LastTransitionTime
		time.Sleep(2 * time.Second)
		b.writer.Say(pod, *unscheduled("no room for the gang"))
		b.expect()
		b.says(pod, "no room in its own cycle", to("n"))
		b.writer.Say(pod, *unscheduled("room on n"))
		b.expect("p: node n room on n")
		if now := b.condition("p").LastTransitionTime; !now.Equal(&since) {
			t.Errorf("It holds since %v, and did since %v", now, since)
		}
	}, pod)
}

// TestSaidAfterTheBinding checks that a status that is recorded after the binding is not written,
// and that the slot of the pod is removed later.
func TestSaidAfterTheBinding(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"of a pod that nothing was said of": false, "of one that has been spoken of": true} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p")
			in(t, func(b *bench) {
				if before {
					b.says(pod, "no room", nil)
					b.expect("p: no room")
				}
				if err := b.bind(pod); err != nil {
					t.Error(err)
				}
				b.writer.Say(pod, *unscheduled("no room for the gang"))
				b.expect("bind p")
				time.Sleep(2 * memory)
				if err := b.bind(newPod("other")); err != nil {
					t.Error(err)
				}
				if n := len(b.writer.slots); n != 1 {
					t.Errorf("%d pods are remembered", n)
				}
				b.expect("bind other")
			}, pod)
		})
	}
}

// TestSaidWhileTheBindingIsUnderWay checks a binding that fails. If a status is recorded during the
// binding, it must not be written. If a status is recorded after the failure, it must be written.
func TestSaidWhileTheBindingIsUnderWay(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		b.answering(func(call string) error {
			if call != "bind p" {
				return nil
			}
			time.Sleep(time.Second)
			return errors.New("refused")
		})
		var binding sync.WaitGroup
		binding.Go(func() { _ = b.bind(pod) })
		synctest.Wait()
		b.writer.Say(pod, *unscheduled("no room for the gang"))
		binding.Wait()
		b.expect("bind p")
		b.writer.Say(pod, *unscheduled("no room any more"))
		b.expect("p: no room any more")
	}, pod)
}

// TestBindingComesLast checks that a status that was recorded before the binding is not written
// after the binding.
func TestBindingComesLast(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		b.answering(func(string) error {
			time.Sleep(5 * time.Second)
			return nil
		})
		b.says(pod, "no room", nil)
		synctest.Wait()
		b.says(pod, "still no room", nil)
		claims := b.writer.Nominate([]Nomination{{Pod: pod, Node: "n"}})
		if err := b.bind(pod); err != nil {
			t.Error(err)
		}
		for _, claim := range claims {
			if err := b.writer.Write(b.t.Context(), claim); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		b.expect("p: no room", "bind p")
	}, pod)
}

// TestAnnotatedBinding checks that a binding has the annotations from Annotate in addition to its
// own.
func TestAnnotatedBinding(t *testing.T) {
	w := &Writer{}
	given := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{UID: "p", Annotations: map[string]string{"own": "1"}}}
	if w.annotated(given) != given {
		t.Error("A binding without further annotations was changed")
	}
	w.Annotate(func(uid types.UID) map[string]string { return map[string]string{"pod": string(uid)} })
	if got := w.annotated(given).Annotations; len(got) != 2 || got["pod"] != "p" || len(given.Annotations) != 1 {
		t.Errorf("The binding has %v, and the given one %v", got, given.Annotations)
	}
}

// TestBindingThatFails checks that BindPod returns the error of the binding, and that the pod's
// next status is written.
func TestBindingThatFails(t *testing.T) {
	pod := newPod("p")
	refused := errors.New("refused")
	in(t, func(b *bench) {
		b.says(pod, "no room", to("n"))
		b.expect("p: node n no room")
		b.answering(func(call string) error {
			if call == "bind p" {
				return refused
			}
			return nil
		})
		if err := b.bind(pod); !errors.Is(err, refused) {
			t.Errorf("Failed with %v", err)
		}
		b.says(pod, "refused", to(""))
		b.expect("bind p", "p: no node refused")
	}, pod)
}

// TestCallThatFails checks that a failed call is repeated at once if that can help. After a delay,
// every failed call must be repeated, unless the pod was deleted.
func TestCallThatFails(t *testing.T) {
	t.Parallel()
	pod := newPod("p")
	cases := map[string]struct {
		err   error
		times int
		want  int
	}{
		"inside the server":        {err: apierrors.NewInternalError(errors.New("x")), times: 2, want: 3},
		"for want of rights":       {err: apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("x")), times: 1, want: 1},
		"as the server is away":    {err: apierrors.NewServiceUnavailable("x"), times: 100, want: 4},
		"because the pod has gone": {err: apierrors.NewNotFound(corev1.Resource("pods"), "p"), times: 1, want: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bench) {
				var times atomic.Int64
				times.Store(int64(c.times))
				b.answering(func(string) error {
					if times.Add(-1) >= 0 {
						return c.err
					}
					return nil
				})
				b.says(pod, "no room", to("n"))
				time.Sleep(10 * time.Second)
				b.expect(slices.Repeat([]string{"p: node n no room"}, c.want)...)
				_, remembered := b.writer.slots[pod.UID]
				if gone := apierrors.IsNotFound(c.err); remembered == gone {
					t.Errorf("Remembered: %v", remembered)
				}
				times.Store(0)
				time.Sleep(firstAgain)
				if remembered && c.want <= c.times {
					b.expect("p: node n no room")
				}
				b.says(pod, "still no room", nil)
				if remembered {
					b.expect("p: still no room")
				}
			}, pod)
		})
	}
}

// TestBoundByAnother checks that a failed call is not repeated if another component has bound the
// pod.
func TestBoundByAnother(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		b.answering(func(string) error { return apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("x")) })
		b.says(pod, "no room", nil)
		b.expect("p: no room")
		b.answering(func(string) error { return nil })
		b.writer.Bound(pod.UID)
		time.Sleep(2 * longestAgain)
		b.expect()
	}, pod)
}

// TestManyPods checks that calls for different pods run in parallel, at most as many as there are
// workers.
func TestManyPods(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 100 {
		pods = append(pods, newPod(fmt.Sprint("p-", i)))
	}
	in(t, func(b *bench) {
		var mu sync.Mutex
		now, most := 0, 0
		b.answering(func(string) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		})
		for _, pod := range pods {
			b.says(pod, "no room", nil)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if most != workers || len(b.calls) != len(pods) {
			t.Errorf("%d calls, %d at a time", len(b.calls), most)
		}
	}, pods...)
}

// TestManyWaitForLong checks that a status is written even if it waits longer than memory. The
// Writer removes slots that are unused for that long.
func TestManyWaitForLong(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 200 {
		pods = append(pods, newPod(fmt.Sprint("p-", i)))
	}
	in(t, func(b *bench) {
		b.limiter = flowcontrol.NewTokenBucketRateLimiter(1, 1)
		for _, pod := range pods {
			b.says(pod, "no room", nil)
		}
		for range 10 {
			time.Sleep(memory)
			b.says(newPod("other"), "", nil)
		}
		synctest.Wait()
		if len(b.calls) != len(pods) {
			t.Errorf("%d calls", len(b.calls))
		}
	}, pods...)
}

// TestBindingWaitsForNoLimit checks that a binding does not wait for the rate limiter of status
// patches.
func TestBindingWaitsForNoLimit(t *testing.T) {
	pods := []*corev1.Pod{newPod("first"), newPod("p")}
	in(t, func(b *bench) {
		b.limiter = flowcontrol.NewTokenBucketRateLimiter(0.01, 1)
		b.says(pods[0], "no room", nil)
		synctest.Wait()
		b.says(pods[1], "no room", nil)
		synctest.Wait()
		start := time.Now()
		if err := b.bind(pods[1]); err != nil || time.Since(start) != 0 {
			t.Errorf("Bound after %v: %v", time.Since(start), err)
		}
		time.Sleep(10 * memory)
		b.expect("first: no room", "bind p")
	}, pods...)
}

// TestBackToWhatWas checks a status that is recorded during a call and equals the status before
// that call.
func TestBackToWhatWas(t *testing.T) {
	t.Parallel()
	pod := nominated("p", "n")
	pod.Status.Conditions = []corev1.PodCondition{*unscheduled("no room")}
	cases := map[string]struct {
		then func(b *bench)
		want string
	}{
		"by the framework": {func(b *bench) { b.says(pod, "no room", to("n")) }, "p: node n no room"},
		"by the evictor":   {func(b *bench) { b.nominate(Nomination{Pod: pod, Node: "n"}) }, "p: node n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in(t, func(b *bench) {
				b.answering(func(string) error {
					time.Sleep(5 * time.Second)
					return nil
				})
				b.says(pod, "other reasons", to("m"))
				synctest.Wait()
				c.then(b)
				time.Sleep(memory / 2)
				b.expect("p: node m other reasons", c.want)
			}, pod)
		})
	}
}

// TestAnswerThatIsLost checks a call without an answer. The next status must be written, even if it
// equals the status of that call.
func TestAnswerThatIsLost(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		lost := errors.New("connection reset by peer")
		b.answering(func(string) error { return lost })
		b.says(pod, "no room", to("n"))
		b.expect("p: node n no room")
		b.answering(func(string) error { return nil })
		b.nominate(Nomination{Pod: pod})
		b.expect("p: no node no room")
		b.says(pod, "no room", to(""))
		b.expect()
	}, pod)
}

// TestBoundDuringABindingThatFails checks a binding that succeeds in the API server, while its
// answer is lost. The informer reports the bound pod before the call ends. After that, no status of
// the pod may be written.
func TestBoundDuringABindingThatFails(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		b.answering(func(call string) error {
			if call == "bind p" {
				b.writer.Bound(pod.UID)
				return errors.New("connection reset by peer")
			}
			return nil
		})
		if err := b.bind(pod); err == nil {
			t.Error("The binding reports no error")
		}
		b.says(pod, "connection reset by peer", to(""))
		b.expect("bind p")
	}, pod)
}

// TestStatusThatOthersWrite checks that the status in the scheduler's cache takes precedence again
// when memory has passed since the Writer's last write.
func TestStatusThatOthersWrite(t *testing.T) {
	pod := newPod("p")
	in(t, func(b *bench) {
		b.says(pod, "no room", to("n"))
		b.expect("p: node n no room")
		for range 5 {
			time.Sleep(memory / 4)
			b.says(pod, "no room", to("n"))
		}
		// The Writer must write the node and the condition again, because the cached pod has
		// neither.
		b.expect("p: node n no room")
	}, pod)
}

// TestWaitOnFinish checks that WaitOnFinish returns when its context ends.
func TestWaitOnFinish(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&Writer{}).WaitOnFinish(ctx, make(chan error)); !errors.Is(err, context.Canceled) {
		t.Errorf("Ended with %v", err)
	}
}
