package metrics

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	k8smetrics "k8s.io/component-base/metrics"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// queueGauges holds the gauges that have a value for each queue.
type queueGauges struct {
	pending   *k8smetrics.GaugeVec
	allocated *k8smetrics.GaugeVec
	fairShare *k8smetrics.GaugeVec
	missing   *k8smetrics.GaugeVec

	mu sync.Mutex
	// shown holds the queues and resources that have series in the gauges of the status.
	shown map[queueResource]bool
	// missed holds the queues and resources that have a series in the gauge of missing quota.
	missed map[queueResource]bool
}

// queueResource names a resource of a queue. resource is "" for gauges with the label queue only.
type queueResource struct{ queue, resource string }

func newQueueGauges(c *catalog) *queueGauges {
	queue, resource := open("queue"), open("resource")
	return &queueGauges{
		pending: c.gauges(Description{
			Name:   "queue_pending_pods",
			Help:   "Pods without a node, of a queue and of all queues below it.",
			Advice: "The Queue reports it as `status.waiting`.",
			Labels: []Label{queue},
		}),
		allocated: c.gauges(Description{
			Name: "queue_allocated",
			Help: "Usage of a queue and of all queues below it; with the resource pods, the number of its running pods.",
			Advice: "The Queue reports it as `status.allocated`. Inner queues include the queues below them, so a sum over all queues " +
				"counts twice.",
			Labels: []Label{queue, resource},
		}),
		missing: c.gauges(Description{
			Name:   "queue_missing_quota",
			Help:   "The amount that a queue lacks, up to its quota or its pods' requests, whichever is less.",
			Advice: "Alert if it stays above 0 for an hour.",
			Labels: []Label{queue, resource},
		}),
		fairShare: c.gauges(Description{
			Name:   "queue_fair_share",
			Help:   "The fair share of a queue.",
			Advice: "The Queue reports it as `status.fairShare`.",
			Labels: []Label{queue, resource},
		}),
		shown: map[queueResource]bool{},
	}
}

// Queues records the status of each queue, by the name of the queue. A resource that is no longer
// in the status gets the value 0, so that its line in a graph falls to 0. The series of deleted
// queues are removed.
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
	// Every queue has a series for the number of its pods, even if it never had any.
	for queue := range all {
		if pods := (queueResource{queue, string(corev1.ResourcePods)}); !shown[pods] {
			g.fall(pods)
			shown[pods] = true
		}
	}
	g.shown = shown
}

// fall sets the gauges for allocation and fair share to 0 for a resource of a queue.
func (g *queueGauges) fall(of queueResource) {
	g.allocated.WithLabelValues(of.queue, of.resource).Set(0)
	g.fairShare.WithLabelValues(of.queue, of.resource).Set(0)
}

// forget removes the series of a queue, or of one of its resources.
func (g *queueGauges) forget(of queueResource) {
	if of.resource == "" {
		g.pending.Delete(map[string]string{"queue": of.queue})
		return
	}
	labels := map[string]string{"queue": of.queue, "resource": of.resource}
	g.allocated.Delete(labels)
	g.fairShare.Delete(labels)
}

// QuotaMissing records the quota that each queue lacks, by the name of the queue. The value is 0
// for a resource that a queue does not lack.
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
