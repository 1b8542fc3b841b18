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
//  2. potentialVictims: the units that the policy (judge) lets this preemptor take.
//  3. insist, feasibleUpTo: with all of them gone, does it fit? If not, the domain is out.
//  4. moreImportant: the one order of units, total and deterministic.
//  5. ceiling: the lowest priority up to which units have to be at risk; everything above is safe.
//  6. choose, cheapestPlacement: members go where it costs least to free a node.
//  7. reprieve: units come back, those that would break a disruption budget before all others, then the most
//     important first.
//  8. better: the order of outcomes, by which domains, and competing searches of one domain, are compared.
//  9. plain: the algorithm of the document to the letter, one of the competitors, so that no outcome is worse.
//
// # Who may be taken
//
// judge gives the verdict on one unit, with the rule and when a protection ends; every search and every report goes by it.
// It asks the policy for the entitlement, and then the protections, one after the other. There are two policies:
// priorityPolicy and queuePolicy. The second goes by the [fairshare.Tree] of queues, the fair shares and the quotas, and knows
// what bounds sets of units and not each of them, a share or the surplus of a gang inside a min-runtime (ledger).
//
// Both ask for most units at once: all units of one priority have the same entitlement, and often all of a leaf queue.
// Units that a protection may be about are judged one by one.
//
// Where queues count, what may be taken gets ranks in place of priorities (victimOrder, reclaimOrder), and the search
// runs on a restricted view of the same snapshot, with columns of these units only. Whether units may be taken together is judged by
// what all queues come to once they have gone (pathUse, ledger); where the cheapest may not, the sets are gone through (wholeSets).
//
// # Three ways to know whether there is room
//
// For a pod, a node is worked out by itself (nodeVictims), and only nodes whose lower bound (prospect) beats
// the best outcome so far are worked out at all.
//
// A gang of one class to which only room matters is settled by counting (counter): how many members does
// each node hold? No member is placed before the victims are known, so every victim is one without which the
// gang has no room on any placement. Units that are the matter of one node are chosen exactly (choice): the
// cheapest ones on each node for each number of members (cover), and the cheapest numbers over the nodes.
//
// Where classes compete for nodes, or the Oracle has a say, members are placed and units come back around
// them (reprieving); a member in the way moves if it fits elsewhere. That is bin packing: small cases are
// searched through (backtrack), large ones take the first placement found, which may miss a way that exists.
//
// What is not exact is chosen greedily, and the best of several ways is kept: then what goes beside groups
// and budgets is chosen anew (refined), and small gangs are improved by a local search (improve). The tests
// measure how close that comes to the optimum.
package core
