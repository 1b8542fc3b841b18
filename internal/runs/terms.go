package runs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// terms converts seals to the engine's type. It caches the last seal, because members of a group
// often have equal seals.
type terms struct {
	text string
	of   *engine.Terms
}

// read returns the terms in the seal of a pod; nil for a pod without a seal.
func (t *terms) read(pod *corev1.Pod) *engine.Terms {
	text := gang.SealText(pod)
	if text == "" {
		return nil
	}
	if text == t.text {
		return t.of
	}
	t.text, t.of = text, nil
	if s, ok := gang.ParseSeal(text); ok {
		t.of = &engine.Terms{Queue: s.Queue, Priority: s.Priority, Class: s.Class, MinCount: s.MinCount, Whole: s.Whole, Since: timeOf(s.Since)}
	}
	return t.of
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
