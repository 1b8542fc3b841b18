package v1alpha1

// Types of the conditions in PodGroupStatus.
const (
	// ConditionPodGroupScheduled is True while enough members have a node. Under the basic policy,
	// one member is enough. A gang needs minCount members and, if it has several roles, enough
	// members of each role. While the condition is False, its reason and message name the cause.
	ConditionPodGroupScheduled = "PodGroupScheduled"
	// ConditionDisruptionTarget is True from the decision to preempt the whole group until the last
	// affected member is gone. status.disruption lists the affected members. The message names the
	// preemptor.
	ConditionDisruptionTarget = "DisruptionTarget"
	// ConditionPodsNotMatchingPriority is True while the priority of a member differs from the
	// group's priority. The group's priority applies to the member.
	ConditionPodsNotMatchingPriority = "PodsNotMatchingPriority"
	// ConditionFollowsObject is False while a PodGroup that Reprieve created for an object differs
	// from the gang that the object requests. Its message names the difference. The condition is
	// absent if there never was a difference.
	ConditionFollowsObject = "FollowsObject"
	// ConditionQueueOrphaned is True while members have a node although the group's Queue cannot
	// hold work: the Queue is deleted, has child Queues, or cannot be used. The members continue to
	// run, and count for no queue. The condition has the reason that pending work of the Queue
	// gets. Otherwise the condition is absent.
	ConditionQueueOrphaned = "QueueOrphaned"
	// ConditionDegraded is True while a gang has too few members after it had enough. Members that
	// have a node or have succeeded count. A gang has too few if fewer than minCount count, or too
	// few of one role or one PodGroup of a tree. It is not degraded if no member has a node. The
	// message has the numbers, and lastTransitionTime is the time of the first loss. The condition
	// is absent if no member was ever lost.
	ConditionDegraded = "Degraded"
	// ConditionCountsAsPlaced is True while members with a node count by settings that differ from
	// the current settings of the PodGroup or its namespace. These members keep the queue,
	// priority, minCount and disruption mode that applied when they got the node. Members that get
	// a node later count by the current settings. The message names the differences. Otherwise the
	// condition is absent.
	ConditionCountsAsPlaced = "CountsAsPlaced"
	// ConditionPreemptionPriority is True while preemptionPriorityClassName determines the priority
	// of the group as a potential victim, and False while the class has no effect. Its message has
	// the priority and the cause. The condition is absent without the field.
	ConditionPreemptionPriority = "PreemptionPriority"
	// ConditionDisruptionModeNever is True while the disruptionMode Never of a PodGroup may protect
	// its members, and False while the mode has no effect. Its message has the length of the
	// protection or the cause. The condition is absent for other modes.
	ConditionDisruptionModeNever = "DisruptionModeNever"
)

// Reasons of ConditionDisruptionModeNever. The condition can also have
// ReasonPriorityClassNotFound and ReasonParentNotFound.
const (
	// ReasonNeverBounded: the members are protected for the time that the PriorityClass sets. If
	// members were placed with other classes, the shortest time counts.
	ReasonNeverBounded = "Bounded"
	// ReasonNoBound: the PriorityClass of the tree lacks a valid annotation
	// reprieve.dev/never-seconds.
	ReasonNoBound = "NoBound"
	// ReasonLongerToleration: the preemption toleration of the PriorityClass protects the members
	// for at least the same time as the mode.
	ReasonLongerToleration = "LongerToleration"
	// ReasonNoParent: the PodGroup is in no tree.
	ReasonNoParent = "NoParent"
	// ReasonParentGoesWhole: an ancestor has the disruption mode All.
	ReasonParentGoesWhole = "ParentGoesWhole"
	// ReasonPlacedWithoutNever: members were placed before the PodGroup had the mode.
	ReasonPlacedWithoutNever = "PlacedWithoutNever"
	// ReasonBasicPolicy: the PodGroup has the basic policy.
	ReasonBasicPolicy = "BasicPolicy"
)

// Reasons of ConditionPreemptionPriority. The condition can also have ReasonPriorityClassNotFound
// and ReasonQueueUnusable.
const (
	// ReasonPreemptionPriorityCounts: the class determines the priority of the group as a potential
	// victim.
	ReasonPreemptionPriorityCounts = "Counts"
	// ReasonLimitedByQueue: the class is above the maxPriorityClass of the group's Queue. The
	// maxPriorityClass applies in place of the class.
	ReasonLimitedByQueue = "LimitedByQueue"
	// ReasonBelowPriority: the class is below the scheduling priority of the group.
	ReasonBelowPriority = "BelowPriority"
	// ReasonSystemClass: the name of the class begins with system-, as the names of Kubernetes' own
	// classes do.
	ReasonSystemClass = "SystemClass"
	// ReasonNoMaximum: the class comes from an annotation of an object such as a Job, and the group
	// is in no Queue with a maxPriorityClass. Such a class needs the maximum as its upper bound.
	ReasonNoMaximum = "NoMaximum"
)

// ReasonChangedSincePlaced is the reason of ConditionCountsAsPlaced: a setting has changed since
// members got their nodes.
const ReasonChangedSincePlaced = "ChangedSincePlaced"

// Reasons of ConditionDegraded.
const (
	// ReasonMembersLost: the gang had enough members on nodes, and now has fewer than it needs.
	ReasonMembersLost = "MembersLost"
	// ReasonWhole: after a loss, enough members have a node or have succeeded.
	ReasonWhole = "Whole"
	// ReasonNoneLeft: no member has a node. The gang waits as a whole.
	ReasonNoneLeft = "NoneLeft"
)

// Reasons of ConditionPodGroupScheduled.
const (
	// ReasonScheduled: enough members have a node.
	ReasonScheduled = "Scheduled"
	// ReasonNotEnoughMembers: fewer than minCount members exist.
	ReasonNotEnoughMembers = "NotEnoughMembers"
	// ReasonBehindItsObject: no member has a node, and the object of the PodGroup requests a larger
	// gang than the minCount of the PodGroup. The PodGroup is placed after Reprieve has raised its
	// minCount.
	ReasonBehindItsObject = "BehindItsObject"
	// ReasonPriorityAbovePods: the class of the PodGroup is above the class of a pod that was
	// created after the PodGroup. Reprieve recreates the PodGroup while no member has a node.
	ReasonPriorityAbovePods = "PriorityAbovePods"
	// ReasonWorkIsOver: the object of the PodGroup is finished, and no member runs or waits.
	ReasonWorkIsOver = "WorkIsOver"
	// ReasonMixedSchedulerNames: members name different schedulers, so no one scheduler can place
	// the gang.
	ReasonMixedSchedulerNames = "MixedSchedulerNames"
	// ReasonSchedulerNotServed: members name a scheduler that is not a profile of Reprieve.
	ReasonSchedulerNotServed = "SchedulerNotServed"
	// ReasonPriorityClassNotFound: the PodGroup names a PriorityClass that does not exist.
	ReasonPriorityClassNotFound = "PriorityClassNotFound"
	// ReasonTemplateNotFound: podGroupTemplateRef names a Workload, or a template in it, that does
	// not exist.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonAmbiguousName: PodGroups of reprieve.dev and of scheduling.k8s.io have the same name.
	ReasonAmbiguousName = "AmbiguousName"
	// ReasonUnsupported: a PodGroup of scheduling.k8s.io requests a feature that Reprieve does not
	// have.
	ReasonUnsupported = "Unsupported"
	// ReasonInvalidTemplate: the fields of the PodGroup contradict those of its template.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonNotFilledIn: the API server rejects the fields that Reprieve fills in.
	ReasonNotFilledIn = "NotFilledIn"
	// ReasonQueueNotFound: the PodGroup names a Queue that does not exist.
	ReasonQueueNotFound = "QueueNotFound"
	// ReasonQueueNotLeaf: the PodGroup names a Queue that has child Queues.
	ReasonQueueNotLeaf = "QueueNotLeaf"
	// ReasonQueueUnusable: the PodGroup names a Queue whose condition Ready is False.
	ReasonQueueUnusable = "QueueUnusable"
	// ReasonQueueNotAllowed: the PodGroup names a Queue that its namespace may not use.
	ReasonQueueNotAllowed = "QueueNotAllowed"
	// ReasonPriorityAboveQueue: the priority of the PodGroup is above the maxPriorityClass of its
	// Queue.
	ReasonPriorityAboveQueue = "PriorityAboveQueue"
	// ReasonQueueRequired: the PodGroup is in no Queue, and the profile of its members requires
	// one.
	ReasonQueueRequired = "QueueRequired"
	// ReasonDriversWithoutWorkers: a member is a driver, and the maximum number of drivers of the
	// Queue already run without their workers. See drivers.withoutWorkers in the arguments of the
	// profile.
	ReasonDriversWithoutWorkers = "DriversWithoutWorkers"
	// ReasonQueueLimit: the limit of a Queue leaves no room for the gang as a whole.
	ReasonQueueLimit = "QueueLimit"
	// ReasonUnschedulable: the members exist, but the cluster has no room for the gang as a whole.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPreempting: the members wait for their nominated nodes, where victims terminate.
	ReasonPreempting = "Preempting"
	// ReasonPending: the group waits for its turn.
	ReasonPending = "Pending"
)

// Reasons of ConditionPodsNotMatchingPriority.
const (
	// ReasonPodsNotMatchingPriority: the condition's message names a member whose priority differs.
	ReasonPodsNotMatchingPriority = "PodsNotMatchingPriority"
	// ReasonPodsMatchingPriority: the priorities of all members match again.
	ReasonPodsMatchingPriority = "PodsMatchingPriority"
)

// Reasons of ConditionFollowsObject.
const (
	// ReasonObjectNotFollowed: the PodGroup differs from the request of its object. The message
	// names the difference, which Reprieve cannot remove, or has yet to remove.
	ReasonObjectNotFollowed = "ObjectNotFollowed"
	// ReasonObjectFollowed: the PodGroup matches the request of its object again.
	ReasonObjectFollowed = "ObjectFollowed"
)

// Reasons of ConditionDisruptionTarget.
const (
	// ReasonPreemptionByScheduler: the scheduler preempts the PodGroup, or a Pod. Kubernetes has
	// the same reason for Pods.
	ReasonPreemptionByScheduler = "PreemptionByScheduler"
	// ReasonPreemptionWithdrawn: a preemption was abandoned before any member was deleted.
	ReasonPreemptionWithdrawn = "PreemptionWithdrawn"
)
