package eviction

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

// Order is a Decision with everything that its eviction needs. It is a value. The [Scheduler]
// beside it answers questions that come up during the eviction.
type Order struct {
	// Decision names the pods to evict and the preemptor.
	Decision core.Decision
	// Victims holds the pods to evict by UID, as the scheduler has cached them. No victim is
	// terminating.
	Victims map[types.UID]*corev1.Pod
	// Nominations holds the nodes of the preemptor's pods. They are written before the first change
	// to a victim.
	Nominations []podstatus.Nomination
	// Groups lists the groups that victims belong to. Seen marks the state of these groups that the
	// decision was based on.
	Groups []types.NamespacedName
	Seen   uint64
	// Surplus lists the groups among Groups that a min-runtime protects and that keep minCount
	// members without the victims, as the decision saw them.
	Surplus []types.NamespacedName
	// Profile is the preemptor's scheduler profile.
	Profile string
	// PreemptorClass is the preemptor's PriorityClass. VictimClasses has the classes of the
	// victims, by the UID of the pod or group. Metrics name them; "" for none.
	PreemptorClass string
	VictimClasses  map[string]string
}

// Scheduler answers questions about the present state during an execution. Several goroutines of an
// execution may call it at the same time.
type Scheduler interface {
	// TurnBack removes a victim that is not bound yet from the scheduler's memory. It returns false
	// for a victim that must be deleted.
	TurnBack(victim *corev1.Pod) bool
	// Wants reports whether the preemptor of an order still needs its reservation and may keep it.
	// After false, the execution begins no further unit.
	Wants(order *Order) bool
	// RunsAnew reports whether a group of the order has started a new run since the decision saw
	// it, and may therefore be protected. The execution asks before it begins the first unit of the
	// group. Later changes of the group are effects of the order.
	RunsAnew(order *Order, group types.NamespacedName) bool
	// KeepsMinCount reports whether a group has enough running members without the terminating
	// ones. The execution asks for each group in Order.Surplus, before each of its pods is evicted.
	KeepsMinCount(group types.NamespacedName) bool
	// IsUnbound reports whether a victim has a node only in the scheduler's memory. Such a
	// pod is not deleted.
	IsUnbound(victim *corev1.Pod) bool
	// HasMoved reports whether a victim that was unbound at the decision was returned to the queue
	// and has another node now. The execution asks before it begins the victim's unit: on the new
	// node, the victim takes no room from the preemptor.
	HasMoved(victim *corev1.Pod) bool
	// HasEnded reports whether a victim has finished or is gone. The execution asks before each
	// removal: a finished pod occupies no room, and its status and logs may still be needed.
	HasEnded(victim *corev1.Pod) bool
}

// Outcome is the result of an order.
type Outcome struct {
	// Err is nil if every victim terminates. It wraps [ErrOutdated] if the decision did not apply
	// any more. Otherwise it is the error of the call that failed.
	Err error
	// Begun holds the victims that are evicted in spite of Err: pods whose removal had begun, and
	// all other pods of their units.
	Begun sets.Set[types.UID]
	// Unwanted is true if the order was outdated because the preemptor no longer wanted it. That is
	// not a failure.
	Unwanted bool
	// Refused is true if nothing was evicted because the API server refused a deletion, and has
	// refused such deletions for a while. Later decisions do not select the pod for some time.
	Refused bool
}

// ErrOutdated is the error of an order whose decision does not apply any more, because the
// preemptor or a victim has changed.
var ErrOutdated = errors.New("the decision is out of date")

// errAnew is the ErrOutdated of a victim whose group has started a new run.
var errAnew = fmt.Errorf("%w: a victim's group has started a new run since then", ErrOutdated)

// errShort is the ErrOutdated of a victim that is not surplus any more.
var errShort = fmt.Errorf("%w: a victim's group has lost members since then, and needs all that are left", ErrOutdated)

// errMoved is the ErrOutdated of a victim that has another node now.
var errMoved = fmt.Errorf("%w: a victim that was not bound has another place since then", ErrOutdated)

// errUnwanted is the ErrOutdated of a preemptor that no longer needs the order.
var errUnwanted = fmt.Errorf("%w: the preemptor has no more use for it", ErrOutdated)
