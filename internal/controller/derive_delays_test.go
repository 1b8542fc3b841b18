package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// TestDeriveRefusedInOtherWords checks that a reason whose text differs at each attempt is not
// reported each time. Each report changes a condition of a pod, and so triggers the next attempt.
func TestDeriveRefusedInOtherWords(t *testing.T) {
	t.Parallel()
	same := func(int) string { return "the queue is not yours" }
	varying := func(try int) string { return fmt.Sprintf("read udp 10.0.0.5:%d->10.0.0.1:53", 40000+try) }
	tests := map[string]struct {
		text func(try int) string
		step time.Duration
		// wantTold lists the attempts, of six, that report the reason.
		wantTold []int
	}{
		"the same each time":              {text: same, wantTold: []int{1}},
		"another port each time":          {text: varying, wantTold: []int{1}},
		"the same, every half minute":     {text: same, step: repeatDelay / 2, wantTold: []int{1}},
		"another port, every half minute": {text: varying, step: repeatDelay / 2, wantTold: []int{1, 3, 5}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try := 0
			c := interceptor.NewClient(newWithWatch(t), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return errors.New(tt.text(try))
				},
			})
			pods := named("p", 2)
			told := make(map[string][]int)
			recorder := events.NewFakeRecorder(10)
			r := newDerive(t, c, &derivedGroup{group: grouping.Group{MinCount: 2, Owner: theJob}}, listed{Pending: pods}, recorder, func(pod *corev1.Pod, c corev1.PodCondition) {
				if !strings.HasSuffix(c.Message, tt.text(try)) {
					t.Errorf("try %d: pod %s says %q", try, pod.Name, c.Message)
				}
				told[pod.Name] = append(told[pod.Name], try)
				// Store the condition in the pod, as the API server does.
				pod.Status.Conditions = []corev1.PodCondition{c}
			})
			clk := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
			r.clock = clk
			for try < 6 {
				try++
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey}); err == nil {
					t.Error("there is no error to be tried again for")
				}
				clk.SetTime(clk.Now().Add(tt.step))
			}
			for _, pod := range pods {
				if !slices.Equal(told[pod.Name], tt.wantTold) {
					t.Errorf("pod %s is told at the tries %v, want %v", pod.Name, told[pod.Name], tt.wantTold)
				}
			}
			if got := len(recorder.Events); got != len(tt.wantTold) {
				t.Errorf("%d events, want %d", got, len(tt.wantTold))
			}
			if v := r.gangs.Unresolved(gang.KeyOf(groupKey)); !strings.HasSuffix(v.Message, tt.text(tt.wantTold[len(tt.wantTold)-1])) {
				t.Errorf("the group says %q, want what its pods say", v.Message)
			}
		})
	}
}

// TestDeriveDenied checks the retries after the API server has rejected a change of minCount. The
// delays grow until the change is accepted, no change is needed, or the group is deleted.
func TestDeriveDenied(t *testing.T) {
	t.Parallel()
	tests := map[string]func(ctx context.Context, d *derivedGroup, denied *bool, c client.Client) error{
		"it is taken": func(_ context.Context, _ *derivedGroup, denied *bool, _ client.Client) error {
			*denied = false
			return nil
		},
		"nothing is to be changed": func(_ context.Context, d *derivedGroup, _ *bool, _ client.Client) error {
			d.group.MinCount = 4
			return nil
		},
		"the group goes": func(ctx context.Context, d *derivedGroup, _ *bool, c client.Client) error {
			d.unknown = true
			return c.Delete(ctx, written(nil))
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			denied := true
			c := interceptor.NewClient(newWithWatch(t, written(nil)), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if denied {
						return apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("PodGroup").GroupKind(), obj.GetName(), nil)
					}
					return c.Patch(ctx, obj, patch, opts...)
				},
			})
			d := &derivedGroup{group: grouping.Group{MinCount: 6, Owner: theJob}}
			// A member has a node, but the status of the PodGroup does not show the member yet.
			r := newDerive(t, c, d, listed{Assigned: named("p", 1, assigned)}, events.NewFakeRecorder(10), func(*corev1.Pod, corev1.PodCondition) {})
			again := func() time.Duration {
				t.Helper()
				result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey})
				if err != nil {
					t.Fatal(err)
				}
				return result.RequeueAfter
			}
			for i := range 12 {
				if got, want := again(), min(conflictDelay<<i, longestDelay); got != want {
					t.Errorf("try %d: again after %v, want %v", i, got, want)
				}
			}
			if err := end(t.Context(), d, &denied, c); err != nil {
				t.Fatal(err)
			}
			if got := again(); got != 0 {
				t.Errorf("again after %v, and there is nothing to be tried", got)
			}
			if got := r.denied.NumRequeues(groupKey); got != 0 {
				t.Errorf("%d tries are remembered", got)
			}
		})
	}
}

// TestControllersTryAgain checks that the delay between retries is at most longestDelay. The limit
// is needed because no event tells a controller that the cause of a failure is gone.
func TestControllersTryAgain(t *testing.T) {
	t.Parallel()
	limiter := optionsFor(nil, conflictDelay).RateLimiter
	var last time.Duration
	for range 30 {
		last = limiter.When(reconcile.Request{})
	}
	if last != longestDelay {
		t.Errorf("after 30 failures it is tried again in %v, want %v", last, longestDelay)
	}
}
