// Package fairshare implements the tree of queues and the entitlement of each queue.
//
// The package is plain Go: no Kubernetes types, no clock, no I/O. All amounts are vectors of one
// set of resources; callers agree on their names and order. Queues are identified by their index in
// the [Tree], parents before children.
//
// It answers three questions in one place each:
//
//   - How much is a queue entitled to? [Tree.FairShares] hands out the quota first. Then it divides
//     the capacity that no quota claims by priority and weight, level by level. A share never
//     exceeds the queue's demand and its limit.
//   - How far is a queue from its share? [DominantShare] is the ratio of usage to entitlement, for
//     the resource with the highest ratio.
//   - Which queue is next? [Balance.Next] starts at the top of the tree and picks the queue that
//     is furthest below its share.
//
// The queue policy in package core decides whether a queue may reclaim from another. Package queue
// keeps the ledger of demand and usage.
package fairshare
