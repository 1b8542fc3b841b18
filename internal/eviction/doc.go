// Package eviction carries out what a core.Decision takes away from others, off the scheduling cycle
// (KEP-4832), so that nothing is left half done.
//
// An [Order] is what the scheduler wants done, an [Outcome] what came of it; both are values. While an order is carried
// out, the [Scheduler] that gave it is asked whether it is still wanted.
//
// The [Executor] makes the calls of one order in a sequence that keeps as little as possible begun when one
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
// The [Finisher] sees to that: it finds the intents that no execution is working on, because their calls failed
// or because the process that wrote them has ended, and removes exactly the pods that are listed there. It
// also ends every disruption, when the last pod of the list is gone.
package eviction
