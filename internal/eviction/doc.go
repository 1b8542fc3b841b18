// Package eviction carries out what a core.Decision takes away from others, off the scheduling cycle
// (KEP-4832), so that nothing is left half done.
//
// The [Executor] makes the calls of one decision in an order that keeps as little as possible begun when one
// of them fails, and everything that is begun recognisable:
//
//   - Nominations: the API is told where the preemptor goes (status.nominatedNodeName).
//   - Victims that have not been bound are turned back in the scheduler's memory; nothing else is done to them.
//   - Intents: every victim PodGroup gets its DisruptionTarget condition and, in the same write, the list of
//     the pods that go (status.disruption). All intents are written before the first delete, so that a refusal
//     shows while everything can still be taken back.
//   - Pods: each gets a DisruptionTarget condition of its own and a delete that is bound to its UID; its grace
//     period is honoured. Both conditions name the preemptor and the rule that allowed it.
//
// A failure before the first delete takes the intents back. A later one takes back those of the groups that
// have not been touched; a group that has been goes whole, whatever becomes of the preemptor.
//
// The [Finisher] sees to that: it finds the intents that nobody is carrying out, because their calls failed
// or because the process that wrote them has ended, and removes exactly the pods that are listed there. It
// also ends every disruption, when the last pod of the list is gone.
package eviction
