package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// points is the number of tested points. They are spread over all writes of an eviction.
const points = 20

// TestCrash kills the scheduler at many points of an eviction, and starts it again. The eviction
// must be completed correctly.
//
//nolint:tparallel // The points are one after the other: there is one scheduler to kill.
func TestCrash(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	scheduler := c.startScheduler(t, "first", alone)
	worlds := c.worlds(t, "w", points)
	var cuts []*scene
	for i, w := range worlds {
		p := w.spread(uint64(i), i, points)
		p.apiServer, p.preemptorGone, p.recreated = i%5 == 4, i%2 == 1, i%3 != 0
		if at := w.restartAt(t, p, scheduler); at != nil {
			cuts = append(cuts, at)
		}
		if t.Failed() {
			// After a failed case, the scheduler may be down, so the other cases would fail too.
			return
		}
	}
	verifyAll(t, worlds)
	// A run with a selection of the cases does not cover all parts of an eviction.
	if len(cuts) == points {
		verifyVariety(t, cuts)
	}
}

// restartAt runs the case for a point: it kills the scheduler there and starts it again. It returns
// the state in the API at the time of the kill.
func (w *world) restartAt(t *testing.T, p point, scheduler *playground.Component) (at *scene) {
	t.Helper()
	t.Run(p.String(), func(t *testing.T) {
		w.explain(t, scheduler)
		at = w.cut(t, p, scheduler)
		if p.preemptorGone {
			w.giveUp(t)
		}
		name, again := "", corev1.Pod{}
		if p.recreated {
			name, again = w.recreate(t, at)
		}
		if err := scheduler.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.verify(t, p, at)
		if name != "" {
			w.verifyUntouched(t, &again)
		}
	})
	return at
}

// verifyVariety checks that the kills have covered the parts of an eviction, except betweenUnits,
// which a run may miss.
func verifyVariety(t *testing.T, cuts []*scene) {
	t.Helper()
	parts := make(map[string]int)
	for _, at := range cuts {
		parts[partOf(at)]++
	}
	for _, part := range []string{beforeAnything, beforeAnyone, halfGone} {
		if parts[part] == 0 {
			t.Errorf("No eviction was cut %s", part)
		}
	}
}

const (
	beforeAnything = "before anything was begun"
	beforeAnyone   = "before anyone was gone"
	halfGone       = "when a group was half gone"
	betweenUnits   = "between two units"
)

// partOf names the part of the eviction that was in progress, judged by the state in the API.
func partOf(at *scene) string {
	switch {
	case len(at.begun) == 0:
		return beforeAnything
	case len(at.going) == 0:
		return beforeAnyone
	case len(at.half) > 0:
		return halfGone
	default:
		return betweenUnits
	}
}

// worlds creates n worlds, and waits until each is full of pods.
func (c *cluster) worlds(t *testing.T, prefix string, n int) []*world {
	t.Helper()
	worlds := make([]*world, n)
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(8)
	for i := range worlds {
		g.Go(func() (err error) {
			if worlds[i], err = c.newWorld(ctx, fmt.Sprintf("%s%d", prefix, i)); err != nil {
				return err
			}
			return worlds[i].populate(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, w := range worlds {
		w.waitReady(t)
	}
	return worlds
}

// verify waits until the interrupted eviction is complete. It checks that exactly the expected pods
// have been evicted.
func (w *world) verify(t *testing.T, p point, at *scene) {
	t.Helper()
	for _, half := range at.half {
		if !slices.Contains(at.begun, half) {
			t.Errorf("%s is half gone, and nobody could know", half)
		}
	}
	// All needed pods are evicted if the preemptor still exists. If the preemptor has been deleted,
	// only the groups whose eviction had begun are evicted, and these as a whole.
	want := w.needed()
	if p.preemptorGone {
		want = slices.Clone(at.going)
		for _, name := range w.needed() {
			if slices.Contains(at.begun, name[:strings.LastIndex(name, "-")]) && !slices.Contains(want, name) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
	}
	w.at(t).Eventually("what has begun ends", func(ctx context.Context) string {
		now, err := w.look(ctx)
		switch {
		case err != nil:
			return err.Error()
		case !p.preemptorGone && now.placed < nodeCount:
			return now.String()
		case !slices.Equal(now.going, want):
			return fmt.Sprintf("going are %v, want %v", now.going, want)
		case len(now.begun)+len(now.targets) > 0:
			return fmt.Sprintf("%v are still on record", slices.Concat(now.begun, now.targets))
		}
		return ""
	})
	w.gone, w.over = want, true
}

// verifyAll checks that no more pods are evicted in any world.
func verifyAll(t *testing.T, worlds []*world) {
	t.Helper()
	worlds[0].For(t).Never("nobody else goes", func(ctx context.Context) string {
		for _, w := range worlds {
			if !w.over {
				continue
			}
			now, err := w.look(ctx)
			if err != nil {
				return err.Error()
			}
			if !slices.Equal(now.going, w.gone) {
				return fmt.Sprintf("%s: going are %v, want %v", w.ns, now.going, w.gone)
			}
		}
		return ""
	})
}

// recreate waits until a member of an evicted group is gone. Then it creates a pod with the name of
// this member, and returns the name and the new pod. If no group is being evicted, it returns an
// empty name.
func (w *world) recreate(t *testing.T, at *scene) (string, corev1.Pod) {
	t.Helper()
	i := slices.IndexFunc(at.going, func(name string) bool { return strings.HasPrefix(name, "low-") })
	if i < 0 {
		return "", corev1.Pod{}
	}
	name := at.going[i]
	group := name[:strings.LastIndex(name, "-")]
	var again *corev1.Pod
	w.at(t).Eventually(name+" comes back", func(ctx context.Context) string {
		// The API server rejects the new pod until the old pod with the same name is gone.
		if err := w.createPod(ctx, name, group, "low", 2, ""); err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		pods, err := w.pods(ctx)
		if err != nil {
			return err.Error()
		}
		if again = pods[name]; again == nil || again.UID == w.born[name] {
			return "the old one is still there"
		}
		return ""
	})
	return name, *again
}

// verifyUntouched checks that the scheduler has not changed a pod.
func (w *world) verifyUntouched(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods, err := w.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := pods[pod.Name]
	if now == nil || now.UID != pod.UID || now.DeletionTimestamp != nil {
		t.Errorf("%s, which came back, has been hit: %+v", pod.Name, now)
		return
	}
	for _, c := range now.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			t.Errorf("%s, which came back, is told that it goes: %s", pod.Name, c.Message)
		}
	}
}

// TestTakeover kills the leader at points of an eviction. The standby must complete the eviction.
//
//nolint:tparallel // The points are one after the other: there is one pair of schedulers.
func TestTakeover(t *testing.T) {
	t.Parallel()
	const takeovers = 3
	c := newCluster(t)
	leader := c.startScheduler(t, "one", oneOfTwo)
	standby := c.startScheduler(t, "two", oneOfTwo)
	worlds := c.worlds(t, "w", takeovers)
	for i, w := range worlds {
		p := w.spread(uint64(100+i), i, takeovers)
		p.preemptorGone, p.apiServer = i == 1, i == 2
		w.takeoverAt(t, p, leader, standby)
		if t.Failed() {
			return
		}
		leader, standby = standby, leader
	}
	verifyAll(t, worlds)
}

// takeoverAt runs the case for a point: it kills the leader there, and the standby takes over. Then
// it starts the killed scheduler as the next standby.
func (w *world) takeoverAt(t *testing.T, p point, leader, standby *playground.Component) {
	t.Helper()
	t.Run(p.String(), func(t *testing.T) {
		w.explain(t, leader)
		w.explain(t, standby)
		at := w.cut(t, p, leader)
		if p.preemptorGone {
			w.giveUp(t)
		}
		w.verify(t, p, at)
		if err := leader.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
