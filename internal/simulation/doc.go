// Package simulation runs a cluster and its scheduler in virtual time: work comes, waits for its turn, is placed, is
// evicted and comes again.
//
// What decides is what decides in production: core.Decide, the tree of queues with its shares, the waiting list of
// internal/admission. They are plain Go without a clock, so they are driven here by a heap of events in place of an API
// server. What is this package's own are the steps between them, which are those of internal/scheduler by the names that
// they have there, and what a cluster does besides: pods that end, grace periods, controllers that create evicted pods
// again.
//
// [Run] plays one [Input] under one [Policy] and returns a [Result]: how long work waited, what was evicted, where the
// GPU-hours went. The same input, policy and seed give the same Result, byte for byte.
//
// For comparison there is kube-scheduler's own rule, as a model of it (kubescheduler.go): each pod of a gang by itself,
// and victims of one node for one pod.
//
// What a simulation leaves out: filters other than room, disruption budgets, images and volumes. Work that is alike and
// waits is represented by the first of it: when something has changed, the others are tried only once that one has not
// been turned down, since they would be told the same. So is what asks for more than another one that has just been turned down,
// for the same queue and no higher a priority (alike.go); in the tests, a referee decides anew for each of these.
package simulation
