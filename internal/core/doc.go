// Package core decides preemptions: given a picture of the cluster and one preemptor, a pod or a gang, it
// says where each member goes and which units have to make room for it.
//
// It is plain Go: no Kubernetes type, no clock, no I/O, and the same input gives the same [Decision], byte
// for byte, in whatever order nodes, units and members are listed. What it knows of a cluster stands in a
// [Snapshot]: nodes with free room as vectors of integers, and the units that may be asked to leave. What
// arithmetic cannot know (affinity, spread, ports, volumes, taints) it asks an [Oracle]. A [Cluster] keeps
// what a search reads from one decision to the next and hands out Snapshots without copying.
//
// A unit goes as a whole or stays as a whole; a PodGroup in disruption mode PodGroup is one unit, over
// however many nodes.
//
// # The search
//
// [Decide] is the one entry. A preemptor that fits as things are takes nothing ([Fits]); one that fits once
// the pods that are leaving already have left takes nothing either ([Waits]). Otherwise it runs the search
// of KEP-5710 ("Preemption algorithm"). Its steps, by the names that they have in the code:
//
//  1. bestDomain: the places to look in: every node for a pod (nodeSearch), the whole cluster for a gang
//     (gang).
//  2. potentialVictims: the units that the policy ([Judge]) lets this preemptor take.
//  3. insist, feasibleUpTo: with all of them gone, does it fit? If not, the domain is out.
//  4. moreImportant: the one order of units, total and deterministic.
//  5. ceiling: the lowest priority up to which units have to be at risk; everything above is safe.
//  6. cheapestPlacement: members go where it costs least to free a node.
//  7. reprieve: units come back, those that would break a disruption budget before all others, then the most
//     important first.
//  8. better: the order of outcomes, by which domains, and competing searches of one domain, are compared.
//  9. plain: the algorithm of the document to the letter, one of the competitors, so that no outcome is worse.
//
// # Queues and min-runtimes
//
// Where more than priority counts, the policy is a contest: it judges units by the [Tree] of queues, the fair shares,
// the quotas and the min-runtimes, whole leaf queues at a time where nothing of a single unit matters, and gives those
// that may be taken levels in place of priorities (candidates, walk). The search then runs on the same snapshot with
// columns of these units only (sample, contend); a single pod looks among the lowest levels first. What bounds sets of
// victims rather than each of them, a share or a gang's surplus, is kept by a ledger.
//
// # Three ways to know whether there is room
//
// For a pod, a node is worked out by itself (clearing), and only nodes whose lower bound (prospect) beats
// the best outcome so far are worked out at all.
//
// A gang of one class to which only room matters is settled by counting (counter): how many members does
// each node hold? No member is placed before the victims are known, so every victim is one without which the
// gang has no room on any placement.
//
// Where classes compete for nodes, or the Oracle has a say, members are seated and units come back around
// them (reprieving); a member in the way moves if it fits elsewhere. That is bin packing: small cases are
// searched through (backtrack), large ones take the first placement found, which may miss a way that exists.
//
// All three choose victims greedily and keep the best of several orders; small gangs are then improved by
// exchanges (polish). The tests measure how close that comes to the optimum.
package core
