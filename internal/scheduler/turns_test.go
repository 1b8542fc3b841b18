package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// turnsBoard has two queues that have asked for all of a cluster.
func turnsBoard() *queue.Board {
	b := queue.NewBoard()
	b.SetNode("n", queue.Amounts{"gpu": 8})
	for _, name := range []string{"a", "b"} {
		b.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}})
		b.Charge(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"gpu": resource.MustParse("8")},
			}}}},
		}, name)
	}
	return b
}

func TestTurns(t *testing.T) {
	start := time.Unix(1000, 0)
	board := turnsBoard()
	standing := board.Standing([]string{"gpu"})
	turns := newTurns()
	wait := func(name, queueName string, priority int32, age int) owner {
		o := owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
		turns.admit(o, func() *waiter {
			return &waiter{owner: o, queue: queueName, priority: priority, since: start.Add(-time.Duration(age) * time.Second), request: queue.Amounts{"gpu": 1}}
		})
		return o
	}
	names := func(owners []owner) []string {
		var out []string
		for _, o := range owners {
			out = append(out, o.Name)
		}
		return out
	}
	for i := range 100 {
		wait(fmt.Sprintf("a%02d", i), "a", 0, 100-i)
	}
	wait("b-old", "b", 0, 50)
	wait("b-important", "b", 5, 1)
	wait("lost", "nowhere", 0, 1)
	got := names(turns.next(standing, nil, start))
	for range 7 {
		// Nobody goes before the last one has been decided on.
		if more := turns.next(standing, nil, start); len(more) != 0 {
			t.Errorf("%v go beyond the window", names(more))
		}
		turns.decided(owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: got[len(got)-1]}})
		got = append(got, names(turns.next(standing, nil, start))...)
	}
	// Where nothing is under way, both are as far below their share, and the first by name goes.
	want := []string{"lost", "a00", "a01", "a02", "a03", "a04", "a05", "a06", "a07"}
	if !slices.Equal(got, want) {
		t.Errorf("let through are\n%v, want\n%v", got, want)
	}
	if !turns.admit(owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a00"}}, nil) {
		t.Error("one that has had its turn is held back")
	}
	late := turns.next(standing, nil, start.Add(turnPatience+time.Second))
	if got := names(late); !slices.Equal(got, []string{"a08"}) {
		t.Errorf("when the window's time is up, %v go, want a08", got)
	}
	// With one of a under way, it is b's turn: by priority, then age.
	board.Charge(placed("a-runs"), "a")
	standing = board.Standing([]string{"gpu"})
	var order []string
	for range 2 {
		turns.decided(late[0])
		late = turns.next(standing, nil, start)
		order = append(order, names(late)...)
	}
	if want := []string{"b-important", "b-old"}; !slices.Equal(order, want) {
		t.Errorf("b's turns are %v, want %v", order, want)
	}
	turns.failed(late[0])
	if o := wait("b-old", "b", 0, 50); !turns.holds(o) {
		t.Error("one that has failed does not wait again")
	}
	// Without queues nobody waits.
	if got := turns.next(nil, nil, start); len(got) != 100-9+1 || len(turns.held) != 0 {
		t.Errorf("%d go without queues, %d are left", len(got), len(turns.held))
	}
}

// placed is a pod on a node.
func placed(uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"gpu": resource.MustParse("1")},
		}}}},
	}
}
