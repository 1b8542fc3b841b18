package controller

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

// holding holds all pods back for a verdict.
type holding struct {
	Derived
	verdict gang.Verdict
	// group is that of all pods; the zero name for none.
	group types.NamespacedName
}

func (h *holding) GroupOf(*corev1.Pod) (types.NamespacedName, bool) {
	return h.group, h.group != types.NamespacedName{}
}
func (h *holding) IsBounded(types.NamespacedName) bool { return true }

func (h *holding) Hold(*corev1.Pod) gang.Verdict { return h.verdict }

// TestHeld: a pod that is held back for a while says why, once, and takes it back when it is not any more.
func TestHeld(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"}}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := indexer.Add(pod); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	derived := &holding{verdict: gang.Verdict{Reason: grouping.ReasonOwnerUnknown, Message: "the pod belongs to Job x"}}
	recorder := events.NewFakeRecorder(10)
	var said []string
	held := NewHeld(corelisters.NewPodLister(indexer), derived, &gang.Store{}, recorder, func(pod *corev1.Pod, c corev1.PodCondition) {
		said = append(said, c.Reason)
		// As the API server has it next.
		pod.Status.Conditions = []corev1.PodCondition{c}
	}, clk)
	reconciled := func() time.Duration {
		t.Helper()
		result, err := held.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "pod"}})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if reconciled() == 0 || len(said)+len(recorder.Events) > 0 {
		t.Errorf("it says %q at once", said)
	}
	for range 2 {
		clk.SetTime(clk.Now().Add(heldTime))
		reconciled()
	}
	if strings.Join(said, " ") != grouping.ReasonOwnerUnknown || len(recorder.Events) != 1 {
		t.Errorf("it says %q, and there are %d events", said, len(recorder.Events))
	}
	derived.verdict = gang.Verdict{}
	for range 2 {
		reconciled()
	}
	if strings.Join(said, " ") != grouping.ReasonOwnerUnknown+" "+v1alpha1.ReasonPending {
		t.Errorf("once it is known, it says %q", said)
	}
}
