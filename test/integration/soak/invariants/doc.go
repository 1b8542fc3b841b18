// Package invariants checks whether a cluster keeps the guarantees of Reprieve. Its input is the
// sequence of states of pods, PodGroups, Queues, nodes and PriorityClasses.
//
// A [Checker] is a state machine. It makes no calls and has no clock: its caller passes the states
// and the time. So a table test can show for each invariant which sequence of states violates it.
// The package shares no code with the scheduler, and implements the rules as documented.
//
// Some invariants must always hold, such as limits and protections. Other invariants limit a
// duration, because the scheduler needs some time to bind a gang or to evict a group. These
// durations are in working time, which stops while a fault prevents the scheduler from working.
package invariants
