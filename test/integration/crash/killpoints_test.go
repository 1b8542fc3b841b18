package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

var (
	killPoints = flag.Int("kill-points", 5, "at how many points TestKillPoints kills")
	killSeed   = flag.Uint64("kill-seed", 1, "what the points of TestKillPoints are picked by")
)

// atOnce is the number of worlds that exist at the same time.
const atOnce = 20

// TestKillPoints kills the scheduler at random points of preemptions and reclaims. In some cases it
// also kills the API server, etcd or both. The flag for the number of points is set by make
// kill-points, which tests hundreds.
//
//nolint:tparallel // The points are one after the other: there is one scheduler to kill.
func TestKillPoints(t *testing.T) {
	t.Parallel()
	reclaims := (*killPoints + 4) / 5
	parts := make(map[string]int)
	for what, points := range map[string]int{"preemptions": *killPoints - reclaims, "reclaims": reclaims} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t)
			c.queued = what == "reclaims"
			scheduler := c.startScheduler(t, "first", alone)
			for begun := 0; begun < points && !t.Failed(); begun += atOnce {
				c.killRound(t, scheduler, begun, min(atOnce, points-begun), parts)
			}
		})
	}
	if !t.Failed() {
		t.Logf("%d kill points by seed %d, none half evicted; cut %v", *killPoints, *killSeed, parts)
	}
}

// killRound runs one case in each of count worlds. It counts the interrupted parts of an eviction
// in parts.
func (c *cluster) killRound(t *testing.T, scheduler *playground.Component, begun, count int, parts map[string]int) {
	t.Helper()
	worlds := c.worlds(t, fmt.Sprintf("k%d-", begun), count)
	for i, w := range worlds {
		seed := *killSeed<<20 + uint64(begun+i)
		random := rand.New(rand.NewPCG(seed, 2))
		p := point{
			seed: seed, write: 1 + random.IntN(w.writes()), apiServer: random.IntN(4) == 0, etcd: random.IntN(4) == 0,
			preemptorGone: random.IntN(3) == 0, recreated: random.IntN(2) == 0,
		}
		if at := w.restartAt(t, p, scheduler); at != nil {
			parts[partOf(at)]++
		}
		if t.Failed() {
			return
		}
	}
	verifyAll(t, worlds)
	for _, w := range worlds {
		if err := w.clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// clear deletes the objects of a world.
func (w *world) clear(ctx context.Context) error {
	for i := range nodeCount {
		if err := w.Objects.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node(i)}}); err != nil {
			return err
		}
	}
	if w.queued {
		for _, short := range []string{lender, borrower} {
			if err := w.Objects.Delete(ctx, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: w.queueName(short)}}); err != nil {
				return err
			}
		}
	}
	return client.IgnoreNotFound(w.Objects.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}))
}
