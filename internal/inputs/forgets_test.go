package inputs

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// TestForgetsWhatNoLineHas checks that a process that writes no lines, such as a standby scheduler,
// drops deleted objects. An object that is in a line must be reported as deleted in the next line.
func TestForgetsWhatNoLineHas(t *testing.T) {
	t.Parallel()
	r := New(Options{})
	for i := range 100 {
		name := fmt.Sprint("p-", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		r.Heard(pod, true)
		placed := pod.DeepCopy()
		placed.Spec.NodeName = "n"
		if i%2 == 0 {
			r.Heard(placed, true)
		}
		r.Heard(placed, false)
	}
	if n := len(r.touched) + len(r.pending); n > 0 {
		t.Errorf("%d pods are remembered", n)
	}
	const claims = "persistentvolumeclaims"
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	for i := range 100 {
		c := claim(fmt.Sprint("c-", i))
		r.tell(claims, c, true)
		r.tell(claims, c, false)
	}
	if n := len(r.changed[claims]); n > 0 {
		t.Errorf("%d claims are remembered", n)
	}
	var written []change
	r.append = func(line decisionlog.Line) bool {
		if d, ok := line.(*delta); ok {
			written = d.changes
		}
		return true
	}
	r.Begin()
	r.tell(claims, claim("stays"), true)
	r.Seen(&Seen{})
	r.tell(claims, claim("stays"), false)
	r.Seen(&Seen{})
	if len(written) != 1 || written[0].key.Name != "stays" || written[0].object != nil {
		t.Errorf("the next line has %v, want that the claim has gone", written)
	}
	if n := len(r.named[claims]); n > 0 {
		t.Errorf("%d claims are in lines", n)
	}
}
