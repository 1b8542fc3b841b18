// Package scheduler runs Reprieve inside a kube-scheduler. Its framework plugin, [Plugin], places
// gangs whole and preempts less important work.
//
// The package connects the framework to packages that do not depend on it. internal/core chooses
// placements and victims. internal/admission decides the order of queued workloads. internal/engine
// keeps the records of workloads, with the causes of waiting. A scheduling cycle that needs a
// decision has three steps:
//
//   - It updates the core's snapshot of the cluster, and takes a view of the snapshot for the
//     preemptor (decision_view.go, with internal/snapshot).
//   - It calls the core, which runs the Filter plugins and extenders through its Oracle (plan.go,
//     with internal/filters).
//   - It turns the Decision into a plan and reservations (plan.go, with internal/engine), or into
//     an order for an [Evictor] (carryout.go, with internal/eviction).
//
// All profiles of a process share a [Scheduler], which [Plugins] creates with the first profile.
// The state of the cluster is in three layers of internal/cluster: [cluster.Index],
// [cluster.Placements] and [cluster.Ledger]. Above the layers are components with one subject each.
// A component uses the layers and earlier components, and does not know the Scheduler. The function
// connect (components.go) creates them in this order:
//
//   - [stepper] reports events to the engine, and carries out their effects.
//   - [retries] moves pods to the active queue. [releases] ends reservations and plans.
//   - [drivers.Bounds] limits the drivers without workers. [plenty] admits work without a turn.
//   - [gates] determines why a workload is blocked before any decision about it.
//   - [nominations] makes nominations agree with reservations. [rooms] releases reservations that
//     no longer fit on their nodes.
//   - [nodeWatch] follows nodes. [departures] follows terminating pods.
//   - [pauses.Pauses] follows preemptors that fail. [victims.Priorities] follows the priorities of
//     groups as potential victims.
//   - [staleGangs] determines which gangs have lacked members for too long. [lostMembers] keeps
//     room for lost members.
//   - [queueChanges] follows Queues, namespaces and PriorityClasses.
//   - [recordedWaits] records the ends of waits. [seals] records the facts that apply to a placed
//     pod. [surplus] counts the running members that a group does not need.
//   - [memberships] updates gangs whose members change. [cycles] handles the ends of cycles.
//   - [groupWatch] and [podWatch] report changes of PodGroups and pods to the components above.
//
// [sources] answers questions of the snapshot, and [reporter.Reporter] reports to users why pods
// wait. These two types are no components, because they cause no effects in the scheduler.
//
// A member of a gang passes the extension points in this order:
//
//   - PreEnqueue ([Gate]) gates members until their PodGroup and minCount members exist, and until
//     the gang has its turn in its Queue. Then it admits one member, the leader.
//   - PreFilter plans the whole gang on one snapshot, in the leader's cycle. In the cycles of the
//     other members, it confines each member to its planned node.
//   - Filter rejects a node if the pod does not fit there beside the reservations that it must
//     respect.
//   - PostFilter applies the decision: reservations, nominations, evictions.
//   - Reserve and Permit make members wait until minCount members have passed their cycles. If one
//     member fails, all members release their nodes.
//
// Pods without a gang pass all of these extension points except Permit. Their PreFilter only checks
// whether their queue blocks them, and whether any node can have room. Their decision is made in
// PostFilter, where kube-scheduler has DefaultPreemption.
//
// Workloads are retried in three ways. Cluster events retry the member that plans for its gang
// (queue.go). Informers retry workloads when pods and PodGroups are added or deleted (watch.go,
// group_watch.go). The waiting list, which records why each workload waits, retries a workload when
// the cause ends (loop.go). docs/architecture.md follows a gang through all of this.
//
// Some words in this package have a fixed meaning:
//
//   - A workload is a single pod or a gang.
//   - A reservation is room on a node that is set aside for a pod until the pod is bound. Some
//     identifiers use the older word promise.
//   - A turn is the permission of a workload to pass from its Queue to the scheduler's queue.
//   - An order is a Decision with everything that its evictions need; its outcome is the result.
//   - A plan assigns a node to each member of a gang. Each member confirms its node in its own
//     cycle.
//   - The waiting list records why each workload waits; its entries are causes ([engine.Cause]).
package scheduler
