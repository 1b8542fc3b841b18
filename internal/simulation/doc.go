// Package simulation runs a cluster and its scheduler in virtual time. Work arrives, waits for
// admission, is placed, may be evicted, and then arrives again.
//
// The code that decides is the code of the scheduler: core.Decide, the queue tree with its fair
// shares, internal/admission and internal/engine. All of it is plain Go without a clock. Instead of
// an API server, a heap of events calls it. This package has its own version of the steps between
// these calls. Many have the name of their counterpart in internal/scheduler. The package also
// models the cluster: pods that end, grace periods, and controllers that create evicted pods again.
//
// [Run] simulates one [Input] under one [Policy] and returns a [Result]: how long work waited,
// which work was evicted, and how GPU-hours were used. The same input, policy and seed always
// result in the same Result, byte for byte.
//
// For comparison, kubescheduler.go is a model of kube-scheduler's preemption. It schedules each pod
// of a gang alone, and considers victims on one node at a time.
//
// The only filter in a simulation is room. There are no disruption budgets, images or volumes.
//
// For speed, jobs share decisions (alike.go). After a change, only the most important of equal jobs
// is tried. The other jobs are tried only if that job finds room. The refusal of a job also applies
// to larger jobs of the same queue whose priority is not higher. In the tests, a referee checks
// each shared refusal by a decision.
package simulation
