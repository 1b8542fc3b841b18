package metrics

// Hold is the reason why a pod without a usable PodGroup is blocked.
type Hold string

const (
	// OwnerUnknown: the scheduler cannot find the object that owns the pod. It may lack the right
	// to read the kind.
	OwnerUnknown Hold = "OwnerUnknown"
	// NotGroupable: the object that owns the pod requests a gang, but Reprieve cannot determine the
	// gang from the object.
	NotGroupable Hold = "NotGroupable"
	// PodGroupNotMade: the scheduler failed to create or update the PodGroup for the pod.
	PodGroupNotMade Hold = "PodGroupNotMade"
	// PriorityAbovePods: the PodGroup outranks the pod, and cannot change while its other pods run.
	PriorityAbovePods Hold = "PriorityAbovePods"
)

// Held records the number of pods that are blocked for a reason.
func (m *Metrics) Held(reason string, pods int) { m.held.WithLabelValues(reason).Set(float64(pods)) }
