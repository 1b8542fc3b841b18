// Package whatif computes the scheduler's decisions without a cluster. A [Cluster] is a
// kube-scheduler with Reprieve's plugins on the objects of an inventory. It has the caches,
// snapshot and filters of a scheduler, but runs no scheduling cycles. [Cluster.Preview] calls the
// scheduler's own decision code; the package adds no rules. Nothing is written: the API server is a
// transport that serves the objects and rejects all other requests.
//
// [Plan] previews workloads one after the other, each on the objects as the previous decision
// leaves them. [Search] looks for the smallest single changes that give a workload room, and
// verifies each by a decision.
package whatif
