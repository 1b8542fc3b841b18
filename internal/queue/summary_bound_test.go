package queue

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestSummaryFits checks that the summary of a Queue's status has at most the 4096 characters that
// the CustomResourceDefinition permits. The API server would reject the whole status otherwise.
func TestSummaryFits(t *testing.T) {
	named := func(prefix string) corev1.ResourceList {
		out := make(corev1.ResourceList)
		for i := range 32 {
			name := fmt.Sprintf("example.com/%s%02d", prefix, i)
			name += strings.Repeat("x", len("example.com/")+63-len(name))
			out[corev1.ResourceName(name)] = resource.MustParse("100000")
		}
		return out
	}
	q := queueUnder("a", "")
	q.Spec.Quota, q.Spec.Limit = named("q"), named("l")
	n := node("n", 8)
	for _, list := range []corev1.ResourceList{q.Spec.Quota, q.Spec.Limit} {
		for name := range list {
			n.Status.Allocatable[name] = resource.MustParse("100000")
		}
	}
	b := NewLedger()
	b.SetNode(n)
	b.SetQueue(q)
	b.AllCharged()
	s := b.Snapshot(b.Resources())
	out := q.DeepCopy()
	s.SetStatus(out, b.WholeGroups(s))
	for field, text := range map[string]string{"used": out.Status.Summary.Used, "share": out.Status.Summary.Share, "quota": out.Status.Summary.Quota} {
		if len(text) > 4096 {
			t.Errorf("summary.%s has %d characters, and the API server accepts 4096", field, len(text))
		}
	}
}
