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

// Order is a Decision with everything that its eviction needs. It is a plain value. Questions about
// the present state go to a [Scheduler].
type Order struct {
	// Decision has the preemptor and the victims.
	Decision core.Decision
	// Victims maps UIDs to the pods to evict, as the scheduler has cached them. No victim is
	// terminating.
	Victims map[types.UID]*corev1.Pod
	// Nominations has the nodes of the preemptor's pods. They are written before any victim
	// changes.
	Nominations []podstatus.Nomination
	// Groups lists the groups of the victims.
	Groups []types.NamespacedName
	// Seen identifies the state of these groups that the decision has used.
	Seen uint64
	// Surplus lists the groups whose min-runtime protects them as long as they have minCount
	// members. The decision evicts only surplus members of these groups.
	Surplus []types.NamespacedName
	// Profile is the name of the preemptor's scheduler profile.
	Profile string
	// PreemptorClass is the preemptor's PriorityClass, for metrics; "" for none.
	PreemptorClass string
	// VictimClasses maps the UIDs of victims, pods or groups, to their PriorityClasses, for
	// metrics.
	VictimClasses map[string]string
}

// Scheduler answers questions about the present state during an execution. Several goroutines may
// call it at the same time.
type Scheduler interface {
	// TurnBack moves a victim without a binding from its node to the scheduler's queue. It returns
	// false for all other victims: these must be deleted.
	TurnBack(victim *corev1.Pod) bool
	// Wants reports whether the preemptor of an order still needs its reservation and may keep it.
	// After it has returned false, the eviction of no further unit begins.
	Wants(order *Order) bool
	// RunsAnew reports whether a group of the order has started a new run after the decision saw
	// it. A new run may protect the group. The execution calls RunsAnew before it evicts the first
	// pod of the group. After that, changes of the group are effects of the order.
	RunsAnew(order *Order, group types.NamespacedName) bool
	// KeepsMinCount reports whether a group has at least minCount running members that do not
	// terminate. The execution calls KeepsMinCount for each group in Order.Surplus, before it
	// evicts a pod of the group.
	KeepsMinCount(group types.NamespacedName) bool
	// IsUnbound reports whether a victim has a node only in the scheduler's memory, and not in the
	// API. Such a pod is not deleted.
	IsUnbound(victim *corev1.Pod) bool
	// HasMoved reports whether a victim that was not bound at the time of the decision has another
	// node now. Evicting it would free no room for the preemptor. The execution calls HasMoved
	// before it begins the unit of the victim.
	HasMoved(victim *corev1.Pod) bool
	// HasEnded reports whether a victim has finished or no longer exists. The execution calls it
	// before each removal. A finished pod uses no resources, and users may need its status and
	// logs.
	HasEnded(victim *corev1.Pod) bool
}

// Outcome is the result of an order.
type Outcome struct {
	// Err is nil if all victims terminate. It wraps [ErrOutdated] if the decision no longer
	// applied. Otherwise it is the error of the API call that failed.
	Err error
	// Begun has the victims that are evicted although Err is not nil. They are the pods whose
	// removal had begun, and all other pods of their units.
	Begun sets.Set[types.UID]
	// Unwanted is true if the order was outdated because the preemptor no longer needed it. This is
	// not a failure.
	Unwanted bool
	// Refused is true if no pod was evicted because the API server refused a deletion, as it has
	// done for a while. For some time, decisions do not select the refused pod as a victim.
	Refused bool
}

// ErrOutdated is the error of an order whose decision no longer applies, because the preemptor or a
// victim has changed.
var ErrOutdated = errors.New("the decision is out of date")

// errAnew wraps ErrOutdated: the group of a victim has started a new run.
var errAnew = fmt.Errorf("%w: a victim's group has started a new run since then", ErrOutdated)

// errShort wraps ErrOutdated: without the victim, its group would now have fewer than minCount
// members.
var errShort = fmt.Errorf("%w: a victim's group has lost members since then, and needs all that are left", ErrOutdated)

// errMoved wraps ErrOutdated: a victim that was not bound has another node now.
var errMoved = fmt.Errorf("%w: a victim that was not bound has another place since then", ErrOutdated)

// errUnwanted wraps ErrOutdated: the preemptor no longer needs the order.
var errUnwanted = fmt.Errorf("%w: the preemptor has no more use for it", ErrOutdated)
