package scheduler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

const (
	// untoldTime is how long work waits for its first turn before anybody is told, and mostTold of how much people are
	// told at a time: after that the scheduler says itself what is in the way.
	untoldTime = 10 * time.Second
	mostTold   = 20
)

// untold picks those who have waited for their first turn for long, and counts all who wait, by queue.
func (t *turns) untold(now time.Time) (picked []*waiter, waiting map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting = make(map[string]int, len(t.lines))
	for name, l := range t.lines {
		waiting[name] = l.Len()
	}
	for _, w := range t.held {
		if len(picked) == mostTold {
			break
		}
		if !w.told && w.failures == 0 && now.Sub(w.came) >= untoldTime {
			w.told = true
			picked = append(picked, w)
		}
	}
	return picked, waiting
}

// tellOfTurns tells people of work that has waited for its first turn for long. What has had one knows what is in its
// way.
func (h *Hub) tellOfTurns() {
	picked, waiting := h.turns.untold(h.clock.Now())
	sum := 0
	for _, n := range waiting {
		sum += n
	}
	h.metrics.Waiting(sum)
	for _, w := range picked {
		message := fmt.Sprintf("%s; %d gangs and pods wait in Queue %q, and go by priority, then age", holdForTurn, waiting[w.queue], w.queue)
		if w.owner.gang {
			if h.registry.Verdict(w.owner.NamespacedName) == (gang.Verdict{}) {
				h.registry.SetVerdict(w.owner.NamespacedName, gang.Verdict{Reason: v1alpha1.ReasonPending, Message: message})
			}
			continue
		}
		pod, err := h.pods.Pods(w.owner.Namespace).Get(w.owner.Name)
		if err != nil || pod.Spec.NodeName != "" {
			continue
		}
		if recorder := h.profiles.recorder(pod.Spec.SchedulerName); recorder != nil {
			recorder.Eventf(pod, nil, corev1.EventTypeNormal, "WaitingForTurn", "Scheduling", "%s", message)
		}
	}
}
