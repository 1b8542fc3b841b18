package eviction

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// Option is an optional setting of an [Executor].
type Option func(*Executor)

// WithMetrics sets the metrics of executions.
func WithMetrics(m *metrics.Metrics) Option {
	return func(e *Executor) { e.metrics = m }
}

// WithProfileRecorders sets the event recorders of profiles. Events of an execution use the
// recorder of the preemptor's profile. Evictions that an earlier process began have no known
// profile and use the recorder of [New].
func WithProfileRecorders(of func(profile string) events.EventRecorder) Option {
	return func(e *Executor) { e.events.ofProfile = of }
}

// WithGroupSource sets the source of the API version of each PodGroup, for references in events.
// Without it, all references use reprieve.dev.
func WithGroupSource(groups gang.Source) Option {
	return func(e *Executor) { e.events.groups = groups }
}

// WithMembership sets the source of the PodGroup of each pod. Without it, a pod belongs to the
// PodGroup that it names.
func WithMembership(members gang.Membership) Option {
	return func(e *Executor) { e.members = members }
}

// WithGroupDone sets a function that is called with the name of each PodGroup when an execution has
// finished its work on it. The [Finisher] then checks the group. The function must not block.
func WithGroupDone(done func(types.NamespacedName)) Option {
	return func(e *Executor) { e.groupDone = done }
}

// WithMaxGracePeriod sets the longest grace period that a victim gets, in whole seconds and at
// least one. A pod with a longer terminationGracePeriodSeconds is deleted with this period. Without
// the option, each victim keeps its own grace period.
func WithMaxGracePeriod(longest func() time.Duration) Option {
	return func(e *Executor) { e.remover.maxGrace = longest }
}

// WithRefusals sets the record of refused deletions, so that other parts can read it.
func WithRefusals(r *Refusals) Option {
	return func(e *Executor) { e.remover.refusals = r }
}
