// Package crash tests on a real control plane that a preemption leaves nothing half done, whatever ends: the
// scheduler, killed at many points of an eviction, the API server beside it, or single calls; and what does not end,
// but goes on beside the leader that has taken over. All calls of the scheduler go through a proxy that makes them
// slow, so that there is something to cut.
package crash
