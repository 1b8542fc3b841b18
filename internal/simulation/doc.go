// Package simulation runs a cluster and its scheduler in virtual time. Work arrives, waits for its
// turn, is placed, is evicted, and arrives again.
//
// The decisions are the same as in production: core.Decide, the queue tree with its shares, the
// turns of internal/admission and the records of internal/engine. They are plain Go without a
// clock. A heap of events drives them here, in place of an API server. This package has its own
// version of the steps between them. Many of these steps have the name of their counterpart in
// internal/scheduler. It also models the cluster: pods that end, grace periods, and controllers
// that create evicted pods again.
//
// [Run] plays one [Input] under one [Policy] and returns a [Result]: how long work waited, which
// work was evicted, and how the GPU-hours were used. The same input, policy and seed give the same
// Result, byte for byte.
//
// For comparison, kubescheduler.go is a model of kube-scheduler's own rule. It schedules each pod
// of a gang alone and looks for the victims of one pod on one node.
//
// A simulation has no filters except room, no disruption budgets, no images and no volumes.
//
// Jobs that are alike share a decision (alike.go). The most important of them is tried after a
// change, and the others only if it is not refused. A job also shares the refusal of a smaller job
// in the same queue whose priority is not lower. In the tests, a referee decides again for each job
// that shares a refusal.
package simulation
