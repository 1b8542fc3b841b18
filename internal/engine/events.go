package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// Event is a fact that the engine acts on. Informers, extension points, the main loop and outcomes
// of API calls report events to [Engine.Step].
type Event interface{ isEvent() }

// Events in the life of a pod. Key names the pod.
type (
	// PodArrives says that a pod waits for its place, or terminates on its node. Group is the pod's
	// group; the zero Key for none.
	PodArrives struct {
		Pod        UID
		Key, Group workload.Key
	}
	// PodRegroups says that a pod with a node, or a pod that terminates, is in this group; the zero
	// Key for no group.
	PodRegroups struct {
		Pod   UID
		Group workload.Key
	}
	// PodRejoins says that the group of a waiting pod has changed. Its reservation as part of
	// another workload ends, and so do its waits and turns as a single pod.
	PodRejoins struct {
		Pod UID
		Key workload.Key
	}
	// PodAssumes says that the pod has a node in its cycle, and its cache counts it there.
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
	// PodLeaves says that the pod no longer exists, or the scheduler will not schedule it. The next
	// pod of the same controller inherits its pauses; see [Unbound] and [Crashes].
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
	// arrived since. It does not end room that is kept for the group; see [Gangs.EndKept].
	GroupLeaves struct{ Group workload.Key }
	// WorkloadPlaced says that the workload has its place. If the place is lost and the workload
	// comes again, it needs no other turn.
	WorkloadPlaced struct{ Key workload.Key }
)

// Events about reserved room.
type (
	// Reserves says that a decision sets room aside for a workload. All other reservations of the
	// workload end.
	Reserves struct {
		Key   workload.Key
		Rooms []*Reservation
	}
	// Releases says that a workload gives up all of its reservations, and no longer waits for
	// victims.
	Releases struct{ Key workload.Key }
	// PlanReleased says that the plan of a gang cannot be carried out. The planned members give up
	// their reservations. Failed is the member that failed; "" for none.
	PlanReleased struct {
		Group  workload.Key
		Failed UID
	}
	// PodsRelease says that pods give up the reservations that they have as part of a workload.
	// Reservations as part of another workload stay.
	PodsRelease struct {
		Key  workload.Key
		Pods []UID
	}
	// RoomLost says that a node cannot fulfill a reservation, so its workload gives up all
	// reservations. If the reservation has ended or moved, the workload was planned again since the
	// caller's check. RoomLost then has no effects.
	RoomLost struct{ Room *Reservation }
	// RoomFreed says that the nominations of reservations that ended unused are cleared, so other
	// pods may use the room. It is the outcome of [Withdraw]. Rooms is empty for a nomination
	// without a reservation.
	RoomFreed struct{ Rooms []*Reservation }
)

// Events that end waits.
type (
	// CauseEnds says that a cause of waiting has ended for all workloads.
	CauseEnds struct{ Cause Cause }
	// VictimGone says that a pod no longer exists.
	VictimGone struct{ Pod UID }
	// VictimStays says that a pod will not terminate.
	VictimStays struct{ Pod UID }
	// TimePasses says that some waits may end now.
	TimePasses struct{}
)

// Effect is an action that follows from an event. The caller of [Engine.Step] carries effects out
// in their order, without the engine's lock.
type Effect interface{ isEffect() }

type (
	// Retry asks the caller to activate the pods that represent the workload.
	Retry struct{ Key workload.Key }
	// Review asks the caller to release the reservations of the workload if they are not valid any
	// more, and then to retry it.
	Review struct{ Key workload.Key }
	// Overdue says that the terminating pod has exceeded its time. It counts as running from now
	// on.
	Overdue struct{ Key workload.Key }
	// Withdraw asks the caller to clear the nominations of reservations that ended unused, in the
	// framework and in the API. Then report [RoomFreed]. A decision respects nominations too, so
	// work that waits for reserved room is retried only once they are cleared.
	Withdraw struct{ Rooms []*Reservation }
	// UsageDrops says that reservations in these queues ended unused, so their usage is lower.
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
