// Package scheduler is Reprieve inside a kube-scheduler: one framework plugin, [Plugin], that places gangs
// whole and makes room for what is more important.
//
// It is wiring. What decides stands below it and knows nothing of a framework: internal/core says which pods go where and which have
// to leave, internal/admission which workload waits for what and whose turn it is. A scheduling cycle that needs a decision
// brings the core's picture of the cluster level with the framework's snapshot and takes a view of it for the preemptor
// (view.go, with internal/snapshot), asks the core with the Filter plugins and extenders behind its Oracle (plan.go, with
// internal/filters), and turns the Decision into a plan and reservations (plan.go, with internal/reservation) or into an
// order for an [Evictor] (carryout.go, with internal/eviction). All profiles of a process share a [Hub], which [Plugins]
// makes with the first of them. What it goes by stands in layers, each a type that sees only those below it: [roster], [occupancy], [books].
//
// The extension points, in the order in which a member of a gang meets them:
//
//   - PreEnqueue ([Gate]) gates members until their PodGroup and minCount of them exist and it is the turn of their queue, and then
//     lets one through, the leader, which plans for all.
//   - PreFilter plans the whole gang on one snapshot when the leader comes, and confines every later member
//     to the node that the plan has for it.
//   - Filter keeps the room that is reserved for a pod from all that do not stand above it.
//   - PostFilter carries out what planning decided: reservations, nominations, evictions.
//   - Reserve and Permit hold members until minCount of them are through; one failure releases all.
//
// Pods without a gang meet all of them but Permit. PreFilter asks only what their queue has against them and whether there can be room;
// their decision is made in PostFilter, where Reprieve stands in for DefaultPreemption.
//
// What wakes a workload: cluster events retry the member that plans for its gang (queue.go); pods and PodGroups that come
// and go wake it through the informers (watch.go); what the waiting list has as its cause, when that ends (hub.go, loop.go).
// docs/architecture.md follows a gang through all of it.
package scheduler
