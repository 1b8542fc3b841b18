package eviction

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
)

// Option is what an [Executor] may have beyond what it needs.
type Option func(*Executor)

// WithMetrics has executions measured.
func WithMetrics(m *metrics.Metrics) Option {
	return func(e *Executor) { e.metrics = m }
}

// WithProfileRecorders has the events of an execution recorded in the name of the preemptor's profile. What an earlier
// process has begun is of no known profile, and keeps the recorder of [New].
func WithProfileRecorders(of func(profile string) events.EventRecorder) Option {
	return func(e *Executor) { e.events.ofProfile = of }
}

// WithGroupSource has events refer to each PodGroup in the API that it is of. Without it, all are of reprieve.dev.
func WithGroupSource(groups gang.Source) Option {
	return func(e *Executor) { e.events.groups = groups }
}

// WithMembership says which PodGroup a pod belongs to. Without it, it is the one that the pod names.
func WithMembership(members gang.Membership) Option {
	return func(e *Executor) { e.members = members }
}

// WithGroupDone has done called, by name, with every PodGroup that an execution has finished with, for the [Finisher] to
// look at. It must not block.
func WithGroupDone(done func(types.NamespacedName)) Option {
	return func(e *Executor) { e.groupDone = done }
}

// WithRefusals has what the API server refuses to have deleted remembered in r, for others to go by.
func WithRefusals(r *Refusals) Option {
	return func(e *Executor) { e.remover.refusals = r }
}
