package tenants

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// changers is the number of clients of a tenant that change objects at the same time, and
	// manyChanges the number of changes before a test measures.
	changers, manyChanges = 4, 200
	// soon is the longest permitted delay of other work on a fast machine. Before the scheduler
	// limited the effect of such changes, the measured delays were from 20 to 70 seconds.
	soon = 15 * time.Second
)

// bearable returns the longest permitted delay of other work. calm is the time that such work takes
// on this machine while the tenant changes nothing.
func bearable(calm time.Duration) time.Duration { return max(soon, 10*calm) }

// changing starts several clients that make changes as the tenant until the test ends, as fast as
// the API server answers. changing returns as soon as manyChanges changes have succeeded. A change
// that fails because of a conflict, or because its object no longer exists, does not count.
func (e *env) changing(change func(ctx context.Context, n int) error) {
	e.Helper()
	ctx, stop := context.WithCancel(e.Context())
	var made, next atomic.Int64
	changes, ctx := errgroup.WithContext(ctx)
	for range changers {
		changes.Go(func() error {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				switch err := change(ctx, n); {
				case err == nil:
					made.Add(1)
				case ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
					return fmt.Errorf("change %d of the tenant: %w", n, err)
				}
			}
			return nil
		})
	}
	began := time.Now()
	e.Cleanup(func() {
		stop()
		if err := changes.Wait(); err != nil {
			e.Error(err)
		}
		e.Logf("The tenant has made %d changes in %v", made.Load(), time.Since(began))
	})
	e.Eventually("the tenant has made many changes", func(context.Context) string {
		if n := made.Load(); n < manyChanges {
			return fmt.Sprintf("%d changes", n)
		}
		return ""
	})
}

// runsWithin waits until a pod runs, and reports an error if that takes too long.
func (e *env) runsWithin(most time.Duration, name string, began time.Time) {
	e.Helper()
	e.Runs(name, 1)
	if took := time.Since(began); took > most {
		e.Errorf("%s has run after %v, want at most %v", name, took, most)
	}
}

// TestChangesDelayNoEviction tests a running gang whose owner changes its PodGroup or its pods all
// the time. A preemptor must still evict the gang, and run soon.
func TestChangesDelayNoEviction(t *testing.T) {
	t.Parallel()
	names := []string{"victims-0", "victims-1"}
	for what, change := range map[string]func(e *env) func(ctx context.Context, n int) error{
		"its PodGroup": func(e *env) func(ctx context.Context, n int) error {
			return func(ctx context.Context, n int) error {
				return e.edit.Patch(ctx, &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "victims"}}, annotation(n))
			}
		},
		"its pods": func(e *env) func(ctx context.Context, n int) error {
			return func(ctx context.Context, n int) error {
				return e.edit.Patch(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: names[n%len(names)]}}, annotation(n))
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.AddNodes(8, "a")
			calm := time.Now()
			e.CreateGroup(stage.Group{Name: "victims", MinCount: 2, Priority: "low", Whole: true})
			for _, name := range names {
				pod := stage.NewPod(e.Namespace, name, "low", 4)
				e.Groups.Join(pod, "victims")
				e.Create(pod)
			}
			e.Runs("victims-", len(names))
			most := bearable(time.Since(calm))
			e.changing(change(e))
			began := time.Now()
			e.urgent(true)
			e.runsWithin(most, "urgent", began)
		})
	}
}

// annotation returns a patch of an annotation that no program reads.
func annotation(n int) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/n":"%d"}}}`, n))
}

// TestToggledMinCounts tests a tenant that toggles the minCount of four queued gangs between one
// and a huge number. During these changes, each of five other pods must run soon after its
// creation.
//
// A request of a turn that takes time for each of minCount members stalls the scheduler only if it
// reads the huge number right after the gate. That is rare, so this test may pass nevertheless.
// TestTurnOfAGangWithAnyMinCount in internal/scheduler tests the request itself.
func TestToggledMinCounts(t *testing.T) {
	t.Parallel()
	const groups, members = 4, 30
	e := newEnv(t)
	e.AddNodes(4, "full", "free")
	e.running("filler", "high", "full", 1)
	team := e.queue("team", v1alpha1.QueueSpec{})
	for g := range groups {
		name := fmt.Sprintf("toggled-%d", g)
		pg, ok := e.NewGroup(stage.Group{Name: name, MinCount: members, Priority: "low"}).(*v1alpha1.PodGroup)
		if !ok {
			t.Fatal("the group is of another API")
		}
		pg.Spec.QueueName = &team
		e.Create(pg)
		for i := range members {
			pod := stage.NewPod(e.Namespace, fmt.Sprintf("%s-%d", name, i), "low", 4)
			pod.Spec.NodeSelector[corev1.LabelHostname] = e.NodeName("full")
			e.Groups.Join(pod, name)
			e.Create(pod)
		}
	}
	calm := e.probe("calm", stage.Patience)
	e.changing(func(ctx context.Context, n int) error {
		minCount := 1
		if n/groups%2 == 0 {
			minCount = 1_000_000_000
		}
		pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: fmt.Sprintf("toggled-%d", n%groups)}}
		return e.edit.Patch(ctx, pg, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"schedulingPolicy":{"gang":{"minCount":%d}}}}`, minCount)))
	})
	for i := range 5 {
		e.probe(fmt.Sprintf("probe-%d", i), bearable(calm))
	}
	if got := e.Terminating(e.Context()); len(got) > 0 {
		t.Errorf("%v terminate", strings.Join(got, ", "))
	}
}

// probe creates a pod on the node free, waits until it runs, and deletes it. It returns the time
// until the pod ran, and reports an error if that is more than most.
func (e *env) probe(name string, most time.Duration) time.Duration {
	e.Helper()
	began := time.Now()
	pod := newPodOn(e, name, "low", "free")
	e.Create(pod)
	e.runsWithin(most, name, began)
	took := time.Since(began)
	e.do(e.Objects.Delete(e.Context(), pod))
	e.Gone(name)
	return took
}
