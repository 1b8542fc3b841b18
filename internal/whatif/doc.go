// Package whatif asks the scheduler what it would do, without a cluster: a [Cluster] is a kube-scheduler with Reprieve's plugins on
// the objects of an inventory, with its caches, snapshot and filters, in which no cycle runs. It previews decisions by the code
// that decides ([Cluster.Preview]), and has no rules of its own. Nothing in it can write: its API server is a transport that
// serves the objects and refuses all else.
//
// [Plan] previews workloads in turn, each on the objects as the one before would leave them. [Search] looks for the smallest single
// change by which one that finds no room would find it, and verifies each by a decision.
package whatif
