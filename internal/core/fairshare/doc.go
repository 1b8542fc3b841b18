// Package fairshare implements the tree of queues and the fair share of each queue.
//
// The package is plain Go: no Kubernetes types, no clock, no I/O. All amounts are vectors with one
// value per resource; callers agree on the names and order of resources. A queue is identified by
// its index in the [Tree]. Parents have lower indexes than their children.
//
// Each of these questions has one answer here:
//
//   - How much is a queue entitled to? [Tree.FairShares] serves the quotas first. Then it divides
//     the capacity that no quota claims by priority and weight, level by level. A share never
//     exceeds the queue's demand or its limit.
//   - How far is a queue from its share? [DominantShare] is the ratio of usage to share, for the
//     resource with the highest ratio.
//   - Which queue is next? [Balance.Next] starts at the top of the tree and selects the queue that
//     is furthest below its share.
//
// The queue policy in package core decides whether a queue may reclaim from another queue. Package
// queue keeps the ledger of demand and usage.
package fairshare
