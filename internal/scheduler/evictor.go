package scheduler

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// Evictor makes the calls that a decision takes, off the scheduling cycle (KEP-4832).
type Evictor interface {
	// Evict starts to remove the victims of a decision and returns at once. It calls done exactly once, from
	// a goroutine of its own, when every victim is on its way out (nil) or not all of them will be: with an
	// [*EvictionError] where some are all the same.
	Evict(ctx context.Context, order EvictionOrder, done func(error))
	// Nominate has the API say where pods are expected and returns at once. What was said last of a pod wins.
	Nominate(ctx context.Context, nominations []Nomination)
}

// EvictionOrder is a decision with what it takes to carry it out.
type EvictionOrder struct {
	// Decision says who goes, and for whom.
	Decision core.Decision
	// Victims are the pods that go, by UID, as the scheduler knows them. None of them is terminating.
	Victims map[types.UID]*corev1.Pod
	// Nominations say where the preemptor goes. The API is told before anybody is touched.
	Nominations []Nomination
	// Profile is the scheduler profile that the preemptor belongs to.
	Profile string
	// TurnBack removes a victim that has not been bound yet from the scheduler's memory. It reports false
	// for one that has to be deleted.
	TurnBack func(victim *corev1.Pod) bool
	// Wanted reports whether the preemptor still needs what it was promised; nil for always. No unit is
	// begun after it has said no.
	Wanted func() bool
}

// unwanted reports whether an error is that the preemptor, not a victim, is not what it was. Where that is so shows until
// what it was promised is taken back.
func (order *EvictionOrder) unwanted(err error) bool {
	return errors.Is(err, ErrOutdated) && !order.Wanted()
}

// Nomination says on which node a pending pod is expected.
type Nomination struct {
	// Pod is the pod as the scheduler knows it.
	Pod *corev1.Pod
	// Node is "" for none.
	Node string
	// ByFramework is true where the framework itself tells the API, at the end of the pod's scheduling cycle.
	ByFramework bool
}

// EvictionError is the error of an eviction that has been carried out in part.
type EvictionError struct {
	// Err is what was in the way.
	Err error
	// Begun are the victims that go in spite of it: those whose removal was under way, and all others of
	// their units.
	Begun sets.Set[types.UID]
}

func (e *EvictionError) Error() string { return e.Err.Error() }

func (e *EvictionError) Unwrap() error { return e.Err }

// ErrOutdated is the error of an eviction that has been given up because the decision does not apply any more:
// the preemptor or a victim is not what it was.
var ErrOutdated = errors.New("the decision is out of date")
