// Package core decides preemptions. Given a snapshot of the cluster and one preemptor (a pod or a
// gang), it returns the node of each member and the units to evict.
//
// The package is plain Go: no Kubernetes types, no clock, no I/O. The same input gives the same
// [Decision], byte for byte, in any order of nodes, units and members. A [Snapshot] describes the
// cluster: nodes with free room as vectors of integers, and the preemption units that run on them.
// An [Oracle] answers the questions that arithmetic cannot: affinity, spread, ports, volumes,
// taints. A [Cluster] keeps the data of a search from one decision to the next and returns
// Snapshots without copying.
//
// A unit is evicted as a whole or not at all. A PodGroup in disruption mode PodGroup is one unit,
// however many nodes it spans.
//
// # The search
//
// [Decide] is the only entry point. A preemptor that fits now has no victims ([Fits]). A preemptor
// that fits after the terminating pods are gone has none either ([Waits]). Otherwise Decide runs
// the search of KEP-5710 ("Preemption algorithm"). Its steps, with their names in the code:
//
//  1. bestDomain: the search domains. These are the nodes for a pod (nodeSearch), and the whole
//     cluster or the topology domains for a gang (gang).
//  2. potentialVictims: the units that the policy (judge) lets this preemptor evict.
//  3. insist, feasibleUpTo: does the preemptor fit with all of them removed? If not, the search
//     domain is out.
//  4. moreImportant: the one order of units, total and deterministic.
//  5. ceiling: the lowest priority such that the preemptor fits with all potential victims up to
//     it evicted; units above it are safe.
//  6. choose, cheapestPlacement: members are placed where freeing a node costs least.
//  7. reprieve: units are put back. Units that would break a disruption budget come before all
//     others, then the most important ones.
//  8. better: the order of outcomes, which compares search domains, and competing searches of one
//     of them.
//  9. plain: the algorithm of the document to the letter. It is one of the competitors, so no
//     outcome is worse than its own.
//  10. leastCascade: if the preemptor asks for it, outcomes that cost the same are compared by the
//     evictions of their victims' replacements.
//
// A preemptor that fits without victims uses the fullest nodes. With a [fragmentation.Mix], it uses
// the nodes where the free devices that a typical workload cannot use increase least.
//
// A gang may require a domain of nodes, such as a rack: then each domain is searched. If it prefers
// levels of domains, each level is searched in the same way, and inLevels compares the outcomes.
//
// # Who may be evicted
//
// judge returns the verdict on one unit: whether it may be evicted, the rule, and the end of a
// protection. Every search and every report uses judge. It first asks a policy whether the
// preemptor is entitled to the unit, then each protection. There are two policies, priorityPolicy
// and queuePolicy. queuePolicy reads the [fairshare.Tree] of queues, the fair shares and the
// quotas. It also applies bounds on sets of units: a fair share, or the surplus of a gang inside a
// min-runtime (ledger).
//
// Both policies judge most units in bulk. All units of one priority have the same entitlement, and
// often all units of a leaf queue do. Units that may be protected are judged one by one.
//
// If queues count, ranks replace the priorities of potential victims (victimOrder, reclaimOrder).
// The search then runs on a restricted view: the same snapshot with only these units. Whether units
// may be evicted together depends on the usage of all queues after the eviction (pathUse, ledger).
// If the cheapest set is not allowed, the search tries other sets (wholeSets), without the units
// that are in no allowed set (reclaimable).
//
// # Three ways to check for room
//
// For a pod, the search finds the victims on each node separately (nodeVictims). It skips nodes
// whose lower bound of the cost (prospect) is no better than the best outcome so far.
//
// The second way is for a gang of one class that depends only on room. The search counts how many
// members each node can hold (counter), and places them only once the victims are known. So the
// gang has no placement if any one of the victims stays. For units with pods on one node only, the
// choice is exact (choice). cover finds the cheapest units on each node for each number of members.
// choice then finds the cheapest numbers over all nodes.
//
// The third way is for classes that compete for nodes, and for stateful oracles. The search places
// members and puts units back around them (reprieving). If a member is in the way of a unit, it
// moves to another node where it fits. That is bin packing. Small cases try all placements
// (backtrack). Large cases use the first placement found, and may miss a solution.
//
// Where no exact method is known, the search uses several greedy methods and keeps the best result.
// It then chooses the victims with one pod and without budgets again (refined). A local search
// improves small gangs (improve). Tests measure the distance to the optimum.
package core
