package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/reservation"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TestEntitlements: an answer that is yes counts for a moment, until something changes that is told; one that is no does not.
func TestEntitlements(t *testing.T) {
	t.Parallel()
	x, y := workload.Key{Name: "x"}, workload.Key{Name: "y"}
	for name, c := range map[string]struct {
		first bool
		// between is what happens before it is asked again, after so long.
		between   func(*entitlements)
		after     time.Duration
		key       workload.Key
		wantAsked bool
	}{
		"yes, at once":                   {first: true, key: x},
		"yes, shortly after":             {first: true, key: x, after: entitledFor - 1},
		"yes, later":                     {first: true, key: x, after: entitledFor, wantAsked: true},
		"yes, and something has changed": {first: true, key: x, between: (*entitlements).askAnew, wantAsked: true},
		"no, at once":                    {key: x, wantAsked: true},
		"of another":                     {first: true, key: y, wantAsked: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e entitlements
			now := time.Unix(0, 0)
			if got := e.asks(x, now, func() bool { return c.first }); got != c.first {
				t.Fatalf("got %v first, want %v", got, c.first)
			}
			if c.between != nil {
				c.between(&e)
			}
			asked := false
			got := e.asks(c.key, now.Add(c.after), func() bool { asked = true; return false })
			if asked != c.wantAsked || got == c.wantAsked {
				t.Errorf("it was asked: %v, want %v; the answer is %v", asked, c.wantAsked, got)
			}
		})
	}
}

// TestEntitlementsAreForgotten: what counts no more is dropped with the next answer.
func TestEntitlementsAreForgotten(t *testing.T) {
	t.Parallel()
	var e entitlements
	yes := func() bool { return true }
	e.asks(workload.Key{Name: "x"}, time.Unix(0, 0), yes)
	e.asks(workload.Key{Name: "y"}, time.Unix(1, 0), yes)
	if len(e.until) != 1 {
		t.Errorf("%d answers are kept, want one", len(e.until))
	}
}

// TestChangeWhileItIsAsked: an answer that was worked out before something changed does not count afterwards.
func TestChangeWhileItIsAsked(t *testing.T) {
	t.Parallel()
	var e entitlements
	key, now := workload.Key{Name: "x"}, time.Unix(0, 0)
	e.asks(key, now, func() bool { e.askAnew(); return true })
	if e.asks(key, now, func() bool { return false }) {
		t.Error("the answer from before counts")
	}
}

// BenchmarkForfeits: what it takes to tell whether a gang in a queue may have what it has been promised, while four victims of each
// member leave.
func BenchmarkForfeits(b *testing.B) {
	for _, members := range []int{10, 100, 500} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			h, key := promisedGang(b, members)
			for b.Loop() {
				if h.isBarred(key) {
					b.Fatal("it is barred")
				}
			}
		})
	}
}

func promisedGang(t testing.TB, members int) (*Hub, workload.Key) {
	t.Helper()
	h := detached(&Inputs{Groups: &gang.Store{}, Registry: gang.NewRegistry(func(types.NamespacedName) {})})
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	h.pods = corelisters.NewPodLister(indexer)
	h.board.SetQueue(limitedQueue("a", "1000000"))
	h.board.SetQueue(limitedQueue("b", "1000000"))
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	for i := range 4 * members {
		pod := placed(fmt.Sprint("victim-", i))
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		pod.Spec.Containers[0].Resources.Requests = cpu
		h.board.Charge(pod, "b")
	}
	key := gangKey(types.NamespacedName{Namespace: "ns", Name: "g"})
	var reserved []*reservation.Reservation
	for i := range members {
		pod := turnsPod(fmt.Sprint("member-", i))
		pod.Spec.Containers[0].Resources.Requests = cpu
		pod.Namespace, pod.Name, pod.Labels = "ns", string(pod.UID), map[string]string{v1alpha1.LabelQueue: "a"}
		if err := indexer.Add(pod); err != nil {
			t.Fatal(err)
		}
		h.board.Charge(pod, "a")
		pi, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		reserved = append(reserved, &reservation.Reservation{
			Pod: pi, UID: pod.UID, Node: fmt.Sprint("node-", i), Place: i, Standing: workload.Standing{Queue: "a"},
		})
	}
	h.reserved.Keep(key, reserved)
	return h, key
}
