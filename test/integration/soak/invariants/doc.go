// Package invariants says of a cluster whether what Reprieve promises has been kept, from what is seen of it alone: every state that
// pods, PodGroups, Queues, nodes and PriorityClasses have had, in their order.
//
// A [Checker] is a state machine that is told those states, and the time. It makes no calls and has no clock, so that a table of
// states shows for each invariant what breaks it and what does not. It shares no code with the scheduler: what it knows of the rules
// is the documentation's.
//
// Some invariants hold at each moment (limits, protections), others within a bound: a gang is bound member by member, a group goes
// pod by pod. Such bounds are of working time, which stands still while a fault keeps the scheduler from its work.
package invariants
