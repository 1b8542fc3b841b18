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

// WithProfileRecorders sets the function that returns the event recorder of a profile. The events
// of an execution use the recorder of the preemptor's profile. If an earlier process began the
// eviction, the profile is not known, and events use the recorder of [New].
func WithProfileRecorders(of func(profile string) events.EventRecorder) Option {
	return func(e *Executor) { e.events.ofProfile = of }
}

// WithGroupSource sets the source that knows the API version of each PodGroup, for references in
// events. Without it, references have the version of reprieve.dev.
func WithGroupSource(groups gang.Source) Option {
	return func(e *Executor) { e.events.groups = groups }
}

// WithMembership sets the mapping from pods to PodGroups. Without it, a pod belongs to the PodGroup
// that it names.
func WithMembership(members gang.Membership) Option {
	return func(e *Executor) { e.members = members }
}

// WithGroupDone sets a function that is called with the name of a PodGroup after an execution has
// finished its work on the group. The [Finisher] must then reconcile the group. The function must
// not block.
func WithGroupDone(done func(types.NamespacedName)) Option {
	return func(e *Executor) { e.groupDone = done }
}

// WithMaxGracePeriod sets the function that returns the longest grace period of victims. The period
// must be at least one second, and counts in whole seconds. A pod with a longer
// terminationGracePeriodSeconds is deleted with this grace period. Without the option, each victim
// gets its full grace period.
func WithMaxGracePeriod(longest func() time.Duration) Option {
	return func(e *Executor) { e.remover.maxGrace = longest }
}

// WithRefusals sets the record of refused deletions. The caller can share it with other parts of
// the scheduler.
func WithRefusals(r *Refusals) Option {
	return func(e *Executor) { e.remover.refusals = r }
}
