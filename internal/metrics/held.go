package metrics

// Hold is the reason why a pod is blocked before it has a usable group.
type Hold string

const (
	// OwnerUnknown: the object that the pod belongs to is not known. Its kind may not be readable.
	OwnerUnknown Hold = "OwnerUnknown"
	// NotGroupable: the object asks for a gang, and the gang cannot be determined.
	NotGroupable Hold = "NotGroupable"
	// PodGroupNotMade: the PodGroup for the pod cannot be written.
	PodGroupNotMade Hold = "PodGroupNotMade"
	// PriorityAbovePods: the PodGroup already runs other pods, and outranks the pod.
	PriorityAbovePods Hold = "PriorityAbovePods"
)

// Held records how many pods are blocked for a reason.
func (m *Metrics) Held(reason string, pods int) { m.held.WithLabelValues(reason).Set(float64(pods)) }
