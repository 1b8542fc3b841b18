package controller

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// TestQueuesDue: while the books go on changing, figures are written a few queues at a time, each in its turn; conditions
// at once, and everything once the books are still.
func TestQueuesDue(t *testing.T) {
	const queues = 2*queueFigures + 6
	board := queue.NewBoard()
	var all []v1alpha1.Queue
	for i := range queues {
		q := v1alpha1.Queue{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("q%03d", i)},
			Spec:       v1alpha1.QueueSpec{Quota: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}
		board.SetQueue(&q)
		all = append(all, q)
	}
	pods := 0
	charge := func() *queue.Standing {
		for i := range all {
			pods++
			board.Charge(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(pods), Namespace: "default", UID: types.UID(fmt.Sprint(pods))},
				Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				}}}},
			}, all[i].Name)
		}
		return board.Standing(board.Resources())
	}
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	s := &QueueStatus{board: board, clock: clock}
	// write does what update does with those that are due.
	write := func(standing *queue.Standing) map[string]bool {
		clock.Step(time.Second)
		due, _ := s.due(all, standing)
		s.last = standing
		names := make(map[string]bool)
		for _, u := range due {
			names[u.before.Name] = true
			*u.before = *u.after
		}
		return names
	}
	if got := len(write(charge())); got != queues {
		t.Fatalf("%d queues get their first conditions, want all %d", got, queues)
	}
	seen := make(map[string]bool)
	for round, want := range []int{queueFigures, queueFigures, queueFigures} {
		due := write(charge())
		if len(due) != want {
			t.Fatalf("round %d: %d are due, want %d", round, len(due), want)
		}
		for name := range due {
			seen[name] = true
		}
	}
	if len(seen) != queues {
		t.Errorf("%d queues have had their turn in three rounds, want all %d", len(seen), queues)
	}
	last := charge()
	write(last)
	if got, want := len(write(last)), queues-queueFigures; got != want {
		t.Errorf("%d are due once the books are still, want the %d that are left", got, want)
	}
	if got := len(write(last)); got != 0 {
		t.Errorf("%d are due although all are level", got)
	}
}
