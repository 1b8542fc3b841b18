package metrics

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// queueGauges are the figures of each queue.
type queueGauges struct {
	pending   *k8smetrics.GaugeVec
	allocated *k8smetrics.GaugeVec
	fairShare *k8smetrics.GaugeVec
	missing   *k8smetrics.GaugeVec

	mu sync.Mutex
	// shown are the queues and resources that have a figure.
	shown map[queueResource]bool
	// missed are those of which it is shown what is missing of a quota.
	missed map[queueResource]bool
}

// queueResource is a resource of a queue; the resource is "" for what is said of the queue itself.
type queueResource struct{ queue, resource string }

func newQueueGauges() *queueGauges {
	return &queueGauges{
		pending: k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{
			Namespace: namespace, Name: "queue_pending_pods",
			Help:           "Pods of a queue, and of all below it, that have no node.",
			StabilityLevel: k8smetrics.ALPHA,
		}, []string{"queue"}),
		allocated: k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{
			Namespace: namespace, Name: "queue_allocated",
			Help:           "What a queue, with all below it, has of a resource.",
			StabilityLevel: k8smetrics.ALPHA,
		}, []string{"queue", "resource"}),
		fairShare: k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{
			Namespace: namespace, Name: "queue_fair_share",
			Help:           "What a queue is entitled to of a resource, as things are.",
			StabilityLevel: k8smetrics.ALPHA,
		}, []string{"queue", "resource"}),
		missing: k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{
			Namespace: namespace, Name: "queue_missing_quota",
			Help:           "What a queue lacks of a resource, up to its quota or what its pods request, whichever is less.",
			StabilityLevel: k8smetrics.ALPHA,
		}, []string{"queue", "resource"}),
		shown: map[queueResource]bool{},
	}
}

// Queues records how all queues stand, by name. What a queue has had is shown at 0 once it is not said any more: a line in a
// graph is to fall, not to end. Nothing is shown of a queue that has gone.
func (m *Metrics) Queues(all map[string]v1alpha1.QueueStatus) { m.queues.set(all) }

func (g *queueGauges) set(all map[string]v1alpha1.QueueStatus) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shown := map[queueResource]bool{}
	for queue := range all {
		status := all[queue]
		g.pending.WithLabelValues(queue).Set(float64(status.Waiting))
		shown[queueResource{queue, ""}] = true
		for name, quantity := range status.Allocated {
			share := status.FairShare[name]
			g.allocated.WithLabelValues(queue, string(name)).Set(quantity.AsApproximateFloat64())
			g.fairShare.WithLabelValues(queue, string(name)).Set(share.AsApproximateFloat64())
			shown[queueResource{queue, string(name)}] = true
		}
	}
	for old := range g.shown {
		if _, there := all[old.queue]; !there {
			g.forget(old)
		} else if !shown[old] {
			g.fall(old)
			shown[old] = true
		}
	}
	// How many of its pods run is said of each, also of one that has never had any.
	for queue := range all {
		if pods := (queueResource{queue, string(corev1.ResourcePods)}); !shown[pods] {
			g.fall(pods)
			shown[pods] = true
		}
	}
	g.shown = shown
}

// fall has a queue have none of a resource, and be entitled to none.
func (g *queueGauges) fall(of queueResource) {
	g.allocated.WithLabelValues(of.queue, of.resource).Set(0)
	g.fairShare.WithLabelValues(of.queue, of.resource).Set(0)
}

// forget has nothing shown of what was said of a queue.
func (g *queueGauges) forget(of queueResource) {
	if of.resource == "" {
		g.pending.Delete(map[string]string{"queue": of.queue})
		return
	}
	labels := map[string]string{"queue": of.queue, "resource": of.resource}
	g.allocated.Delete(labels)
	g.fairShare.Delete(labels)
}

// QuotaMissing records what all queues lack of their quotas, by name, with 0 where they lack
// nothing.
func (m *Metrics) QuotaMissing(all map[string]corev1.ResourceList) {
	g := m.queues
	g.mu.Lock()
	defer g.mu.Unlock()
	missed := map[queueResource]bool{}
	for queue, amounts := range all {
		for name, quantity := range amounts {
			g.missing.WithLabelValues(queue, string(name)).Set(quantity.AsApproximateFloat64())
			missed[queueResource{queue, string(name)}] = true
		}
	}
	for old := range g.missed {
		if !missed[old] {
			g.missing.Delete(map[string]string{"queue": old.queue, "resource": old.resource})
		}
	}
	g.missed = missed
}
