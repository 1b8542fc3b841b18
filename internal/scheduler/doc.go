// Package scheduler runs Reprieve inside a kube-scheduler. Its framework plugin, [Plugin], places
// gangs whole and preempts less important work.
//
// The package connects the framework to packages that do not depend on it. internal/core chooses
// placements and victims. internal/admission decides the order of workloads and keeps the causes of
// waiting. A scheduling cycle that needs a decision has three steps:
//
//   - It updates the core's snapshot of the cluster, and takes a view of it for the preemptor
//     (view.go, with internal/snapshot).
//   - It calls the core, with the Filter plugins and extenders behind the core's Oracle (plan.go,
//     with internal/filters).
//   - It turns the Decision into a plan and reservations (plan.go, with internal/engine), or
//     into an order for an [Evictor] (carryout.go, with internal/eviction).
//
// All profiles of a process share a [Scheduler], which [Plugins] makes with the first profile. Its
// state has layers, and each type uses only the layers before it: [clusterIndex], [placements],
// [ledger].
//
// A member of a gang passes the extension points in this order:
//
//   - PreEnqueue ([Gate]) gates members until their PodGroup and minCount members exist and their
//     queue has its turn. Then it admits one member, the leader.
//   - PreFilter plans the whole gang on one snapshot when the leader comes. It confines every later
//     member to its planned node.
//   - Filter keeps reserved room from pods that must respect the reservation.
//   - PostFilter carries out the decision: reservations, nominations, evictions.
//   - Reserve and Permit make members wait until minCount of them have passed their cycles. One
//     failure releases all.
//
// Pods without a gang pass all of them except Permit. Their PreFilter only checks whether their
// queue blocks them and whether any node can have room. Their decision is made in PostFilter, in
// the place of DefaultPreemption.
//
// Workloads are retried for three reasons. Cluster events retry the member that plans for its gang
// (queue.go). Informers retry workloads when pods and PodGroups are added or deleted (watch.go).
// The waiting list retries a workload when its cause ends (loop.go). docs/architecture.md follows a
// gang through all of this.
package scheduler
