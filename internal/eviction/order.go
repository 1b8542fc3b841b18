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

// Order is a decision with what it takes to carry it out. It is a value: what has to be asked while it is carried out
// goes to the [Scheduler] that is passed beside it.
type Order struct {
	// Decision says which pods go, and for which preemptor.
	Decision core.Decision
	// Victims are the pods that go, by UID, as the scheduler knows them. None of them is terminating.
	Victims map[types.UID]*corev1.Pod
	// Nominations say where the preemptor goes. The API is told before any victim is touched.
	Nominations []podstatus.Nomination
	// Groups are those that victims are members of, and Seen marks how they stood when they were looked at.
	Groups []types.NamespacedName
	Seen   uint64
	// Surplus are those of them that are guarded by a min-runtime and kept their minCount without the victims, as the decision saw them.
	Surplus []types.NamespacedName
	// Profile is the scheduler profile that the preemptor belongs to.
	Profile string
}

// Scheduler answers what an execution has to know of the present while it is under way. It is called from goroutines of
// the execution, several at a time.
type Scheduler interface {
	// TurnBack removes a victim that has not been bound yet from the scheduler's memory. It reports false for one that has
	// to be deleted.
	TurnBack(victim *corev1.Pod) bool
	// Wants reports whether the preemptor of an order still needs what it was promised, and may have it. No unit is begun after
	// it has said no.
	Wants(order *Order) bool
	// RunsAnew reports whether a group of the order has begun to run anew since it was looked at, and may be protected by now. It is
	// asked before the first unit of the group is begun; once one is, what becomes of the group is the order's doing.
	RunsAnew(order *Order, group types.NamespacedName) bool
	// KeepsMinCount reports whether as many members of a group run on as it needs, without those that are on their way out. It is asked
	// of each group that gives surplus only, before each of its pods goes.
	KeepsMinCount(group types.NamespacedName) bool
	// IsUnbound reports whether a victim has a place in the scheduler's memory only, so that nothing has to be deleted.
	IsUnbound(victim *corev1.Pod) bool
	// HasMoved reports whether a victim that was chosen before it was bound has been turned back since, and has another place. It
	// is asked before its unit is begun: where it is now, it is in no preemptor's way.
	HasMoved(victim *corev1.Pod) bool
	// HasEnded reports whether a victim has ended by itself, or has gone. It is asked before each is removed: such a pod takes no room,
	// and has something to show.
	HasEnded(victim *corev1.Pod) bool
}

// Outcome is what became of an order.
type Outcome struct {
	// Err is what was in the way: nil where every victim is on its way out, [ErrOutdated] where the decision did not
	// apply any more, or the error of the call that failed.
	Err error
	// Begun are the victims that go in spite of Err: those whose removal was under way, and all others of their units.
	Begun sets.Set[types.UID]
	// Unwanted is true where the order was outdated and the preemptor did not want it any more. That is no failure.
	Unwanted bool
	// Refused is true where nothing has begun because a deletion was refused, as others have been for a while. The pod is left alone from now on, so
	// that another decision comes out otherwise.
	Refused bool
}

// ErrOutdated is the error of an order that has been given up because its decision does not apply any more: the
// preemptor or a victim is not what it was.
var ErrOutdated = errors.New("the decision is out of date")

// errAnew is ErrOutdated on a victim's side.
var errAnew = fmt.Errorf("%w: a victim's group runs anew since then", ErrOutdated)

// errShort is ErrOutdated for a victim that was surplus.
var errShort = fmt.Errorf("%w: a victim's group has lost members since then, and needs all that are left", ErrOutdated)

// errMoved is ErrOutdated for a victim that is elsewhere by now.
var errMoved = fmt.Errorf("%w: a victim that was not bound has another place since then", ErrOutdated)

// errUnwanted is ErrOutdated on the preemptor's side.
var errUnwanted = fmt.Errorf("%w: the preemptor has no more use for it", ErrOutdated)
