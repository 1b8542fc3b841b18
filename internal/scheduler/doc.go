// Package scheduler is Reprieve inside a kube-scheduler: one framework plugin, [Plugin], that places gangs
// whole and makes room for what is more important.
//
// Data goes one way. A scheduling cycle that needs a decision brings the core's picture of the cluster level
// with the framework's snapshot, node by node where something has changed (mirror.go), takes a view of it for
// the preemptor (view.go), asks internal/core with the Filter plugins and extenders behind its Oracle (oracle.go), and turns the
// Decision into a plan and nominations (plan.go) or hands it to an [Evictor]. What gangs are and where they
// stand is kept in internal/gang; all profiles of a process share that through a [Hub].
//
// The extension points, in the order in which a member of a gang meets them:
//
//   - PreEnqueue gates members until their PodGroup and minCount of them exist, and then lets one through, the
//     leader, which plans for all.
//   - PreFilter plans the whole gang on one snapshot when the leader comes, and confines every later member
//     to the node that the plan has for it.
//   - Filter keeps the room that is planned for a pod, its seat, from all that do not stand above it.
//   - PostFilter carries out what planning decided: seats, nominations, evictions.
//   - Reserve and Permit hold members until minCount of them are through; one failure releases all.
//
// Pods without a gang meet only Filter and PostFilter, where Reprieve stands in for DefaultPreemption.
//
// Who wakes whom: cluster events retry the member that plans for its gang (queue.go); pods and PodGroups
// that come and go wake it through the informers (watch.go); the last victim to go wakes the preemptor
// (departures.go); seats that are given up wake those who found no room for them (seats.go).
package scheduler
