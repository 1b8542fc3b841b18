package v1alpha1

// LabelPodGroup is the label of a Pod that joins a PodGroup. Its value is the name of a PodGroup in
// the Pod's namespace.
const LabelPodGroup = "reprieve.dev/pod-group"

const (
	// AnnotationLeads marks a Pod as a driver: a pod that creates its workers once it runs. The
	// value is the minimum number of workers that the driver needs. With "0", the Pod is not a
	// driver, even if its labels say so.
	AnnotationLeads = "reprieve.dev/leads"
	// LabelLedBy is the label of a worker Pod. Its value is the name of the driver, a Pod in the
	// same namespace.
	LabelLedBy = "reprieve.dev/led-by"
)

// AnnotationPlacedAs is the annotation with the group, queue, priority and other settings that
// apply to a Pod as long as it has a node, as JSON. The scheduler writes it when it binds the Pod,
// so that later changes of the settings do not apply to the Pod. Users must not set or change it.
const AnnotationPlacedAs = "reprieve.dev/placed-as"

// Annotations of a Pod or a PodGroup about the work that its eviction loses. They have an effect in
// profiles whose victimOrder has LostWork, as the default has. A checkpoint also ends the count of
// stops (see LastDisruption).
const (
	// AnnotationLastCheckpoint has the time when the work was last saved (RFC 3339). If a PodGroup
	// and its members have different times, the latest applies to all members.
	AnnotationLastCheckpoint = "reprieve.dev/last-checkpoint"
	// AnnotationCheckpointInterval has the time between two checkpoints of the work, counted from
	// its start, such as "30m". It applies if AnnotationLastCheckpoint has no time since the start.
	AnnotationCheckpointInterval = "reprieve.dev/checkpoint-interval"
	// AnnotationRestartCost has the run time that a restart loses in addition to the unsaved work.
	// The value is a number of seconds or a duration such as "10m", at most 24 hours.
	AnnotationRestartCost = "reprieve.dev/restart-cost"
)

// Annotations of an object whose pods form a gang, such as a Job. They can also be on the
// namespace, and then apply to all objects in it that lack the annotation.
const (
	// AnnotationGang determines whether Reprieve creates a PodGroup for the object: "true" or
	// "false".
	AnnotationGang = "reprieve.dev/gang"
	// AnnotationGangPer determines which pods of the object form a gang. Its value is
	// GangPerObject, GangPerRole or GangPerTree.
	AnnotationGangPer = "reprieve.dev/gang-per"
	// AnnotationDisruptionMode is the disruptionMode of the created PodGroup. With GangPerTree, the
	// value All evicts the whole tree together.
	AnnotationDisruptionMode = "reprieve.dev/disruption-mode"
	// AnnotationPriorityClass is the priorityClassName of the created PodGroup.
	AnnotationPriorityClass = "reprieve.dev/priority-class"
	// AnnotationQueue is the queueName of the created PodGroup.
	AnnotationQueue = LabelQueue
	// AnnotationTopologyKey is the key of the created PodGroup's topology constraint.
	AnnotationTopologyKey = "reprieve.dev/topology-key"
	// AnnotationPreferredTopologyKey has the keys of the created PodGroup's preferred topology
	// levels, the nearest first, separated by commas.
	AnnotationPreferredTopologyKey = "reprieve.dev/preferred-topology-key"
	// AnnotationPreemptionPriorityClass is the preemptionPriorityClassName of the created PodGroup.
	// It may change at any time.
	AnnotationPreemptionPriorityClass = "reprieve.dev/preemption-priority-class"
)

// Annotations of a PodGroup that Reprieve created. They name the sources of fields whose values do
// not come from the pods. The value of each is FromObject or FromNamespace.
const (
	// AnnotationClassOf is the source of the priorityClassName. It never changes.
	AnnotationClassOf = "reprieve.dev/class-of"
	// AnnotationQueueOf is the source of the queueName. It never changes.
	AnnotationQueueOf = "reprieve.dev/queue-of"
	// AnnotationPreemptionClassOf is the source of the preemptionPriorityClassName. It changes with
	// the field.
	AnnotationPreemptionClassOf = "reprieve.dev/preemption-class-of"
	// FromObject marks a value from an annotation of the object.
	FromObject = "object"
	// FromNamespace marks a value from an annotation of the object's namespace. A PriorityClass
	// from the namespace may be higher than the class of the pods.
	FromNamespace = "namespace"
)

// Values of AnnotationGangPer.
const (
	// GangPerObject is one gang for all roles.
	GangPerObject = "object"
	// GangPerRole is one gang for each role.
	GangPerRole = "role"
	// GangPerTree is one PodGroup for each replica or role, and a CompositePodGroup that joins them
	// to one gang.
	GangPerTree = "tree"
)
