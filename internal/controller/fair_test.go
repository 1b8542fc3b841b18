package controller

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// TestFairQueue checks that a namespace waits for at most one request of each other namespace,
// regardless of their number of requests.
func TestFairQueue(t *testing.T) {
	t.Parallel()
	q := newFairQueue("test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	for i := range 3000 {
		q.Add(request("busy", fmt.Sprint(i)))
	}
	q.Add(request("calm", "first"))
	q.Add(request("calm", "second"))
	var got []string
	for range 5 {
		r, _ := q.Get()
		q.Done(r)
		got = append(got, r.Name)
	}
	if want := []string{"0", "first", "1", "second", "2"}; !slices.Equal(got, want) {
		t.Errorf("The order is %v, want %v", got, want)
	}
	if q.Len() != 2997 {
		t.Errorf("%d requests are left", q.Len())
	}
}

// TestFairOrder checks that each request is returned once, and that the requests of one namespace
// keep their order. No namespace has two turns while another namespace waits.
func TestFairOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := &fair{requests: make(map[string][]reconcile.Request)}
		given := make(map[string][]string)
		for i := range rapid.IntRange(1, 30).Draw(t, "requests") {
			namespace := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace")
			f.Push(request(namespace, fmt.Sprint(i)))
			given[namespace] = append(given[namespace], fmt.Sprint(i))
		}
		last := ""
		for f.Len() > 0 {
			r := f.Pop()
			if r.Namespace == last && len(f.requests) > 0 && (len(f.requests) > 1 || f.requests[last] == nil) {
				t.Fatalf("%s has two turns in a row", last)
			}
			if given[r.Namespace][0] != r.Name {
				t.Fatalf("%s comes before %s", r, given[r.Namespace][0])
			}
			given[r.Namespace], last = given[r.Namespace][1:], r.Namespace
		}
		for namespace, left := range given {
			if len(left) > 0 {
				t.Fatalf("%v of %s are lost", left, namespace)
			}
		}
	})
}
