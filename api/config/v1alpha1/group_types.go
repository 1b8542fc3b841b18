package v1alpha1

// GroupArgs select the objects that Reprieve creates PodGroups for.
type GroupArgs struct {
	// kinds lists the kinds of objects that get PodGroups in this profile, by a built-in rule: Job,
	// JobSet, LeaderWorkerSet, MPIJob, PyTorchJob, RayCluster, RayJob and SparkApplication. The
	// scheduler gates the pods of such an object until it has cached the object. It needs the
	// permissions to list and watch the kind.
	//
	// Default: []
	//
	// Example: [Job, JobSet]
	Kinds []string `json:"kinds,omitempty"`

	// optIn selects the objects that get PodGroups, among the objects of the kinds in kinds and
	// rules. Annotated selects objects with the annotation reprieve.dev/gang: "true", on themselves
	// or on their namespace. Always selects all objects. With Annotated and with Always, the
	// annotation value "false" excludes an object.
	//
	// Default: Annotated
	//
	// Example: Always
	OptIn *GroupOptIn `json:"optIn,omitempty"`

	// rules add kinds that have no built-in rule. Each rule names the fields of an object that
	// contain the number of its pods.
	//
	// Default: []
	//
	// Example: [{apiVersion: example.com/v1, kind: Trainer, resource: trainers,
	// roles: [{name: worker, replicas: spec.workers}]}]
	Rules []GroupRule `json:"rules,omitempty"`

	// labels lists other schedulers: coscheduling (of scheduler-plugins), volcano, kai and
	// koordinator. On pods of this profile, Reprieve reads the labels and annotations of these
	// schedulers for groups and queues. It creates PodGroups from the group objects of these
	// schedulers, and needs the permissions to list and watch these objects.
	//
	// Default: []
	//
	// Example: [coscheduling, volcano]
	Labels []GroupLabels `json:"labels,omitempty"`
}

// GroupLabels is a scheduler whose labels and annotations Reprieve reads.
type GroupLabels string

const (
	// LabelsCoscheduling is the plugin coscheduling of scheduler-plugins.
	LabelsCoscheduling GroupLabels = "coscheduling"
	// LabelsVolcano is Volcano.
	LabelsVolcano GroupLabels = "volcano"
	// LabelsKAI is the KAI scheduler.
	LabelsKAI GroupLabels = "kai"
	// LabelsKoordinator is Koordinator.
	LabelsKoordinator GroupLabels = "koordinator"
)

// GroupOptIn selects the objects that get PodGroups.
type GroupOptIn string

const (
	// OptInAnnotated selects objects with the annotation reprieve.dev/gang: "true", on themselves
	// or on their namespace.
	OptInAnnotated GroupOptIn = "Annotated"
	// OptInAlways selects all objects except those with the annotation value "false".
	OptInAlways GroupOptIn = "Always"
)

// GroupRule describes which pods of a kind of objects form a gang, and how many. A path in a rule
// has the names of fields with dots between them. It begins at the top of the object.
type GroupRule struct {
	// apiVersion is the group and version of the kind, such as example.com/v1.
	APIVersion string `json:"apiVersion"`
	// kind is the name of the kind, as in the pods' owner references.
	Kind string `json:"kind"`
	// resource is the kind's name in the API, in lower case and plural.
	Resource string `json:"resource"`
	// suspend is the path of a boolean field that is true while the object has no pods.
	Suspend string `json:"suspend,omitempty"`
	// nameLabel is the key of the pod label that has the name of the object. Set it if the owner
	// references of the pods do not lead to the object.
	NameLabel string `json:"nameLabel,omitempty"`
	// unitLabel is the key of the pod label that identifies the replica of a pod. Set it if each
	// replica of the object is a gang.
	UnitLabel string `json:"unitLabel,omitempty"`
	// units is the path of the number of replicas that unitLabel distinguishes. An object without
	// it cannot be a tree (reprieve.dev/gang-per: tree).
	Units string `json:"units,omitempty"`
	// roleLabel is the key of the pod label that has the role of the pod.
	RoleLabel string `json:"roleLabel,omitempty"`
	// roles lists the roles of the object's pods. The first role that matches a pod applies.
	Roles []GroupRole `json:"roles"`
}

// GroupRole is one role of an object's pods, such as workers.
type GroupRole struct {
	// name is the value of roleLabel on the role's pods.
	Name string `json:"name"`
	// replicas is the path of the number of pods of the role.
	Replicas string `json:"replicas,omitempty"`
	// minimum is the path of the number of pods of the role that the gang needs. Set it if this
	// number may be lower than replicas.
	Minimum string `json:"minimum,omitempty"`
	// alone is true if the pods of the role are scheduled as single pods, outside the gang of the
	// other roles.
	Alone bool `json:"alone,omitempty"`
	// leads is true if the pods of the role are drivers: they create the pods of the other roles
	// once they run. Set alone as well.
	Leads bool `json:"leads,omitempty"`
}
