// Package scheduler runs Reprieve inside a kube-scheduler. Its framework plugin, [Plugin], places
// gangs whole and preempts less important work.
//
// The package connects the framework to packages that do not depend on it. internal/core chooses
// placements and victims. internal/admission decides the order of workloads and keeps the causes of
// waiting. A scheduling cycle that needs a decision has three steps:
//
//   - It updates the core's snapshot of the cluster, and takes a view of the snapshot for the
//     preemptor (decision_view.go, with internal/snapshot).
//   - It calls the core, which runs the Filter plugins and extenders through its Oracle (plan.go,
//     with internal/filters).
//   - It turns the Decision into a plan and reservations (plan.go, with internal/engine), or into
//     an order for an [Evictor] (carryout.go, with internal/eviction).
//
// All profiles of a process share a [Scheduler], which [Plugins] creates with the first profile.
// Its state has three layers: [clusterIndex], [placements], [ledger]. Each layer has the layers
// before it in named fields, and uses no others. The rest are components with one subject each, for
// example [retries] and [releases]. They use the layers and earlier components (components.go), and
// do not know the Scheduler.
//
// A member of a gang passes the extension points in this order:
//
//   - PreEnqueue ([Gate]) gates members until their PodGroup and minCount members exist and their
//     queue has its turn. Then it admits one member, the leader.
//   - PreFilter plans the whole gang on one snapshot, in the leader's cycle. In the cycles of the
//     other members, it confines each member to its planned node.
//   - Filter keeps reserved room from pods that must respect the reservation.
//   - PostFilter applies the decision: reservations, nominations, evictions.
//   - Reserve and Permit make members wait until minCount members have passed their cycles. If one
//     member fails, all members release their nodes.
//
// Pods without a gang pass all of them except Permit. Their PreFilter only checks whether their
// queue blocks them, and whether any node can have room. Their decision is made in PostFilter,
// where kube-scheduler has DefaultPreemption.
//
// Workloads are retried in three ways. Cluster events retry the member that plans for its gang
// (queue.go). Informers retry workloads when pods and PodGroups are added or deleted (watch.go,
// group_watch.go).
// The waiting list retries a workload when the cause of its waiting ends (loop.go).
// docs/architecture.md follows a gang through all of this.
//
// Some words in this package have a fixed meaning:
//
//   - A workload is a single pod or a gang.
//   - A reservation is room on a node that is set aside for a pod until the pod is bound. Older
//     names in the code call it a promise.
//   - A turn is the permission of a workload to pass from its Queue to the scheduler's queue.
//   - An order is a Decision with everything that its evictions need; its outcome is the result.
//   - A plan assigns a node to each member of a gang. Each member confirms its node in its own
//     cycle.
//   - The waiting list records why each workload waits; its entries are causes ([engine.Cause]).
package scheduler
