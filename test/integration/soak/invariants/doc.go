// Package invariants checks from outside whether a cluster keeps the guarantees of Reprieve. It
// uses only the states of pods, PodGroups, Queues, nodes and PriorityClasses, in their order.
//
// A [Checker] is a state machine that gets those states and the time. It makes no calls and has no
// clock. So tests can show, with a table of states for each invariant, which states break it. The
// package shares no code with the scheduler. Its knowledge of the rules comes from the
// documentation.
//
// Some invariants hold at each moment, such as limits and protections. Others hold within a bound,
// because a gang is bound member by member, and a group is evicted pod by pod. Such bounds are in
// working time. Working time stops while a fault keeps the scheduler from its work.
package invariants
