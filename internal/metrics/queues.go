package metrics

import (
	"sync"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// queueGauges are the figures of each queue.
type queueGauges struct {
	pending   *k8smetrics.GaugeVec
	allocated *k8smetrics.GaugeVec
	fairShare *k8smetrics.GaugeVec

	mu sync.Mutex
	// shown are the queues and resources that have a figure.
	shown map[queueResource]bool
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
		shown: map[queueResource]bool{},
	}
}

// Queues records how all queues stand, by name. What is said of others, or of other resources, is not shown any more.
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
		switch {
		case shown[old]:
		case old.resource == "":
			g.pending.Delete(map[string]string{"queue": old.queue})
		default:
			labels := map[string]string{"queue": old.queue, "resource": old.resource}
			g.allocated.Delete(labels)
			g.fairShare.Delete(labels)
		}
	}
	g.shown = shown
}
