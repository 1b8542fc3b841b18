package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// Event is something that happened, such as the arrival of a pod. Informers, extension points, the
// main loop and outcomes of API calls report events to [Engine.Step].
type Event interface{ isEvent() }

// Events in the life of a pod. Key names the pod, and Pod is its UID.
type (
	// PodArrives says that a pod waits to be placed, or terminates on its node. Group is the pod's
	// group; the zero Key for none.
	PodArrives struct {
		Pod        UID
		Key, Group workload.Key
	}
	// PodRegroups says that a pod with a node, or a pod that terminates, is in this group. Group is
	// the zero Key for no group.
	PodRegroups struct {
		Pod   UID
		Group workload.Key
	}
	// PodRejoins says that the group of a waiting pod has changed. The pod's reservation ends. The
	// waits and turns that the pod has as a single pod end too.
	PodRejoins struct {
		Pod UID
		Key workload.Key
	}
	// PodAssumes says that the scheduler has assumed a pod on a node: the scheduler's cache counts
	// the pod there.
	PodAssumes struct {
		Pod  UID
		Key  workload.Key
		Node string
	}
	// PodBinds says that the API server shows the pod on a node.
	PodBinds struct {
		Pod  UID
		Key  workload.Key
		Node string
	}
	// PodLeaves says that the pod no longer exists, or that the scheduler will not schedule it. The
	// next pod of the same controller inherits the pod's pauses; see [Unbound] and [Crashes].
	// Controller is "" for none.
	PodLeaves struct {
		Pod        UID
		Key        workload.Key
		Controller string
	}
)

// Events in the life of a workload.
type (
	// GroupArrives says that a group has a member, in any state.
	GroupArrives struct{ Group workload.Key }
	// GroupLeaves says that the last member of a group is gone. It has no effect if a member has
	// arrived since. The room for lost members of a gang is kept; [Gangs.EndKept] ends it.
	GroupLeaves struct{ Group workload.Key }
	// WorkloadPlaced says that the workload has its place. If the workload loses the place and
	// waits again, it does not need another turn.
	WorkloadPlaced struct{ Key workload.Key }
)

// Events about reserved room.
type (
	// Reserves says that a decision sets room aside for a workload. The new reservations replace
	// all earlier reservations of the workload.
	Reserves struct {
		Key   workload.Key
		Rooms []*Reservation
	}
	// Releases says that a workload gives up all of its reservations, and no longer waits for
	// victims.
	Releases struct{ Key workload.Key }
	// PlanReleased says that the plan of a gang cannot be carried out. The members that are still
	// planned give up their reservations. Failed is the member that failed; "" if the release has
	// another cause.
	PlanReleased struct {
		Group  workload.Key
		Failed UID
	}
	// PodsRelease says that pods give up the reservations that they have as part of a workload.
	// Reservations that the pods have as part of another workload stay.
	PodsRelease struct {
		Key  workload.Key
		Pods []UID
	}
	// RoomLost says that a node cannot fulfill a reservation. The workload of the reservation gives
	// up all its reservations. RoomLost has no effect if the reservation has ended or was replaced
	// since the caller checked it.
	RoomLost struct{ Room *Reservation }
	// RoomFreed says that the caller has carried out [Withdraw]: the nominations of these
	// reservations are cleared, and other pods may use the room. Rooms is empty if the nomination
	// had no reservation.
	RoomFreed struct{ Rooms []*Reservation }
)

// Events that end waits.
type (
	// CauseEnds says that a cause of waiting has ended for all workloads.
	CauseEnds struct{ Cause Cause }
	// VictimGone says that a pod that workloads may wait for no longer exists.
	VictimGone struct{ Pod UID }
	// VictimStays says that a pod that workloads may wait for will not terminate.
	VictimStays struct{ Pod UID }
	// TimePasses says that the deadlines of some waits may have passed.
	TimePasses struct{}
)

// Effect is an action that follows from an event. The caller of [Engine.Step] carries out the
// effects in the returned order, and without the engine's lock.
type Effect interface{ isEffect() }

type (
	// Retry asks the caller to activate the pods that represent the workload.
	Retry struct{ Key workload.Key }
	// Review asks the caller to check whether the reservations of the workload are still valid, to
	// release invalid ones, and then to retry the workload.
	Review struct{ Key workload.Key }
	// Overdue says that a terminating pod did not terminate in time. The pod counts as running from
	// now on.
	Overdue struct{ Key workload.Key }
	// Withdraw asks the caller to clear the nominations of reservations that ended unused, in the
	// framework and in the API. The caller then reports [RoomFreed]. Step retries the work that
	// waits for this room only after RoomFreed, because decisions respect nominations.
	Withdraw struct{ Rooms []*Reservation }
	// UsageDrops says that reservations in these queues ended unused. So the usage of the queues is
	// lower.
	UsageDrops struct{ Queues []string }
)

func (PodArrives) isEvent()     {}
func (PodRegroups) isEvent()    {}
func (PodRejoins) isEvent()     {}
func (PodAssumes) isEvent()     {}
func (PodBinds) isEvent()       {}
func (PodLeaves) isEvent()      {}
func (GroupArrives) isEvent()   {}
func (GroupLeaves) isEvent()    {}
func (WorkloadPlaced) isEvent() {}
func (Reserves) isEvent()       {}
func (Releases) isEvent()       {}
func (PlanReleased) isEvent()   {}
func (PodsRelease) isEvent()    {}
func (RoomLost) isEvent()       {}
func (RoomFreed) isEvent()      {}
func (CauseEnds) isEvent()      {}
func (VictimGone) isEvent()     {}
func (VictimStays) isEvent()    {}
func (TimePasses) isEvent()     {}

func (Retry) isEffect()      {}
func (Review) isEffect()     {}
func (Overdue) isEffect()    {}
func (Withdraw) isEffect()   {}
func (UsageDrops) isEffect() {}
