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
// even if its pods are on many nodes. A gang is whole if at least minCount of its members have a
// node, with the needed number of each role (wholeGang).
//
// # The search
//
// [Decide] is the entry point. A preemptor that fits now has no victims ([Fits]). A preemptor that
// fits after the terminating pods are gone has no victims either ([Waits]). Otherwise Decide runs
// the search of KEP-5710 ("Preemption algorithm"). Its steps, with their names in the code:
//
//  1. bestDomain lists the search domains. For a pod, these are the nodes (nodeSearch). For a gang,
//     they are the topology domains or the whole cluster (gang).
//  2. potentialVictims lists the units that the policy (judge) lets this preemptor evict.
//  3. insist and feasibleUpTo check whether the preemptor fits with all potential victims removed.
//     If the preemptor does not fit, the search skips the domain.
//  4. moreImportant compares units by importance. The order is total and deterministic.
//  5. ceiling is the lowest priority such that the preemptor fits if all potential victims up to
//     this priority are evicted. Units above it are safe.
//  6. choose and cheapestPlacement place members on the nodes where evictions cost least.
//  7. reprieve puts units back as long as the preemptor still fits; these units are not evicted. It
//     starts with the units whose eviction would break a disruption budget. The other units follow,
//     the most important first.
//  8. better compares outcomes: of search domains, and of different methods in one domain.
//  9. plain is the algorithm of KEP-5710 to the letter. Its outcome competes with the outcomes of
//     the other methods, so the final outcome never costs more than the outcome of plain.
//  10. leastCascade decides between outcomes of equal cost, if the preemptor requests it. It counts
//     the evictions that the replacements of the victims would need.
//
// If the preemptor fits without victims, the search places it on the fullest nodes. With a
// [fragmentation.Mix], the search uses the nodes where the placement makes the fewest free devices
// unusable for a typical workload.
//
// A gang may require a topology domain, such as a rack. In this case, each domain is searched. If
// the gang prefers levels of domains, each level is searched in the same way, and inLevels compares
// the outcomes.
//
// # Who may be evicted
//
// judge returns the verdict on one unit: whether it may be evicted, the rule, and the end of a
// protection. Every search and every report uses judge. It first asks a policy whether the
// preemptor is entitled to the unit. Then it asks each protection. There are two policies,
// priorityPolicy and queuePolicy. queuePolicy reads the [fairshare.Tree] of queues, the fair shares
// and the quotas. It also applies bounds on sets of units (ledger). For example, victims together
// must not push a queue below its quota.
//
// Both policies judge most units in bulk. All units of one priority have the same entitlement, and
// often all units of a leaf queue do. Units that may be protected are judged one by one.
//
// With queues, each potential victim has a rank, which replaces its priority (victimOrder,
// reclaimOrder). The search then runs on a restricted view: the snapshot with only the potential
// victims. Whether units may be evicted together depends on the usage of all queues after the
// eviction (pathUse, ledger). If the policy rejects the cheapest set of victims, the search tries
// other sets (wholeSets). It leaves out units that are in no allowed set (reclaimable).
//
// # Three ways to check for room
//
// The first way is for a pod. The search finds the victims on each node separately (nodeVictims).
// It skips nodes whose lower bound of the cost (prospect) is no better than the best outcome.
//
// The second way is for a gang of one class that depends only on room. The search counts how many
// members each node can hold (counter). It places them after the victims are known. The victims are
// certainly the cheapest if each unit has its pods on one node. In this case, the function cover
// finds the cheapest units on each node for each number of members. Then the type choice finds the
// cheapest numbers of members over all nodes.
//
// The third way is for gangs of several classes, and for stateful classes, whose filters depend on
// other pods. The search places the members, and then puts back the units that fit beside them
// (reprieving). If a member is in the way of a unit, the search moves the member to another node
// where it fits. This is bin packing. In small cases, the search tries all placements (backtrack).
// In large cases, it uses the first placement found, and it may miss a solution.
//
// Where no exact method is known, the search uses several greedy methods and keeps the best result.
// For victims with one pod and without budgets, it then finds the cheapest choice (refined). A
// local search improves small gangs (improve). Tests measure the distance to the optimum.
package core
