// Package whatif computes the decisions of the scheduler without a cluster. A [Cluster] is a
// kube-scheduler with Reprieve's plugins and the objects of an inventory. It has the caches, the
// snapshot and the filters of a scheduler, but runs no scheduling cycles. [Cluster.Preview] calls
// the code of the scheduler that makes decisions; this package adds no rules. Nothing is written:
// the API server is an HTTP transport that lists the objects and rejects all other requests.
//
// [Plan] previews several workloads. Each decision is made on the objects after the previous
// decision. [Search] looks for the smallest changes that would give a workload room, and verifies
// each change by a decision.
package whatif
