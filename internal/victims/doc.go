// Package victims determines the priorities of groups as potential victims. By default, a group has
// the same priority as a preemptor and as a potential victim. A PodGroup with a
// preemptionPriorityClassName has a higher priority as a potential victim: the value of that class,
// but at most the maxPriorityClass of its queues.
//
// [Priorities.Of] answers for the status of PodGroups, and [Priorities.In] for the snapshot of
// decisions. An order in progress asks [Priorities.IsRaisedAbove], so that it stops before a group
// that a later change protects.
//
// The priority depends on the PodGroup, on PriorityClasses and on queues. The watchers of these
// objects call [Priorities.Follow] and [Priorities.Review]. If the priority of a group with placed
// members falls, more preemptors may evict the group. [Priorities.RetryFallen] retries them at the
// next tick of the main loop. The recorded priorities are in internal/engine.
package victims
