package metrics

import k8smetrics "k8s.io/component-base/metrics"

// Hold is why a pod is held back before there is a group in which it can be placed.
type Hold string

const (
	// OwnerUnknown: what the pod belongs to is not known; its kind may not be readable.
	OwnerUnknown Hold = "OwnerUnknown"
	// NotGroupable: what it belongs to asks for a gang and does not say which.
	NotGroupable Hold = "NotGroupable"
	// PodGroupNotMade: the PodGroup that is to be made for it cannot be written.
	PodGroupNotMade Hold = "PodGroupNotMade"
	// PriorityAbovePods: its PodGroup, of which others run, stands higher than it.
	PriorityAbovePods Hold = "PriorityAbovePods"
)

func newHeld() *k8smetrics.GaugeVec {
	return k8smetrics.NewGaugeVec(&k8smetrics.GaugeOpts{
		Namespace: namespace, Name: "held_pods",
		Help:           "Pods that are held back, for longer than a moment, because of what they belong to: it is not known, has no PodGroup, or does not go with them.",
		StabilityLevel: k8smetrics.ALPHA,
	}, []string{"reason"})
}

// Held records how many pods are held back for a reason.
func (m *Metrics) Held(reason string, pods int) { m.held.WithLabelValues(reason).Set(float64(pods)) }
