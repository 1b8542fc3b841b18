// Package cluster knows the state of the cluster that scheduling decisions depend on. It finds the
// pods, groups and nodes, the members of each group, their placements, and their usage of queues.
// It answers questions and makes no decisions.
//
// The state has three layers. Each layer holds the layers before it, and no later layer:
//
//   - [Index] finds pods, groups and nodes in the informers. It knows the group, the priority and
//     the profile of a pod.
//   - [Placements] adds the state of pods that the API server does not show yet, such as members
//     that are assumed on a node. It counts the members of a group that have a place, and knows why
//     a group is blocked, apart from its queue.
//   - [Ledger] adds the queue of each pod, the usage and limits of queues, and the reservations.
//
// The files follow the subjects: blocked.go has the causes that block a group, and members.go and
// parts.go count members. roles.go and derived.go read groups that pods do not name themselves.
// claims.go finds the queue of work, charges.go charges pods to queues, and limits.go checks
// limits.
//
// The records of workloads are in internal/engine, the quota ledger is in internal/queue, and the
// terminating pods are in internal/leaving. The caller creates these three, the informers and the
// clock, and passes all of them in. The layers call back nothing: they retry no workload and write
// nothing to the API. Only the Ledger changes state outside this package, when it charges a pod to
// its queue.
//
// All three types are safe for concurrent use.
package cluster
