// Package fairshare is the tree of queues, and what each queue in it is entitled to.
//
// It is plain Go: no Kubernetes type, no clock, no I/O. All amounts are vectors of one set of resources, whose names and
// order its callers agree on. Queues are known by their index in the [Tree], parents before children.
//
// Three questions are answered here, so that each has one answer wherever it is asked:
//
//   - What is a queue entitled to? [Tree.FairShares]: its quota first, then its part of what no quota claims, by priority
//     and weight, level by level, never more than its demand and its limit.
//   - How far from that is it? [DominantShare]: what it has to what it is entitled to, by the resource in which that is
//     most.
//   - Whose turn is it? [Standing.Next]: from the top of the tree down, the queue that is furthest below its share.
//
// Which queue may take from which because of it is said in package core, by its queue policy; package queue keeps the books that
// the demand and the use are read from.
package fairshare
