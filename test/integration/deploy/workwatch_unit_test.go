package deploy

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestWitness checks which events of a pod workWatch reports as errors.
func TestWitness(t *testing.T) {
	t.Parallel()
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		out := newPod("a", "", "", change...)
		out.UID = "1"
		return out
	}
	on := func(node string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Spec.NodeName = node } }
	for name, c := range map[string]struct {
		then []watch.Event
		// leaves is true if the test itself deletes the pod.
		leaves bool
		want   string
	}{
		"it gets a node":     {then: []watch.Event{{Type: watch.Modified, Object: pod(on("n1"))}, {Type: watch.Modified, Object: pod(on("n1"))}}},
		"it gets another":    {then: []watch.Event{{Type: watch.Modified, Object: pod(on("n1"))}, {Type: watch.Modified, Object: pod(on("n2"))}}, want: "n2 after n1"},
		"it goes":            {then: []watch.Event{{Type: watch.Deleted, Object: pod(on("n1"))}}, want: "a is deleted"},
		"it goes as it may":  {then: []watch.Event{{Type: watch.Deleted, Object: pod(on("n1"))}}, leaves: true},
		"it is to go":        {then: []watch.Event{{Type: watch.Modified, Object: pod(func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} })}}, want: "a is deleted"},
		"another has come":   {then: []watch.Event{{Type: watch.Added, Object: newPod("a", "", "")}}, want: "another pod"},
		"it fails":           {then: []watch.Event{{Type: watch.Modified, Object: pod(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })}}, want: "a has failed"},
		"it is evicted":      {then: []watch.Event{{Type: watch.Modified, Object: pod(disrupted)}}, want: "a is to be evicted"},
		"the watch is upset": {then: []watch.Event{{Type: watch.Error, Object: &metav1.Status{}}}, want: "the watch says ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &workWatch{pods: map[string]seen{}, leave: map[string]bool{}}
			if c.leaves {
				w.mayLeave("a")
			}
			w.see(watch.Event{Type: watch.Added, Object: pod()})
			for _, event := range c.then {
				w.see(event)
			}
			got := strings.Join(w.faults, "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

// TestTwice checks that twice reports a pod that was bound twice. A second binding that the API
// server rejected counts too, unless the first request was interrupted.
func TestTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codes []int32
		want  bool
	}{
		"once":                          {[]int32{http.StatusCreated}, false},
		"twice":                         {[]int32{http.StatusCreated, http.StatusCreated}, true},
		"once, and once more in vain":   {[]int32{http.StatusCreated, http.StatusConflict}, true},
		"cut off":                       {[]int32{http.StatusGatewayTimeout}, false},
		"cut off, and again":            {[]int32{http.StatusGatewayTimeout, http.StatusCreated}, false},
		"cut off, and again in vain":    {[]int32{http.StatusGatewayTimeout, http.StatusConflict}, false},
		"in vain, by none that had one": {[]int32{http.StatusConflict}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := twice(c.codes); got != c.want {
				t.Errorf("%v is twice: %t, want %t", c.codes, got, c.want)
			}
		})
	}
}

func disrupted(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
}
