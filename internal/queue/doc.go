// Package queue keeps the books of the queues: which there are, what the work in each of them has and asks for, and
// what each is entitled to. The scheduler and its controllers read one [Board], which informers keep up to date.
//
// What follows from the books (fair shares, whose turn it is) is worked out in internal/core/fairshare, and which units
// may be taken because of it in internal/core; this package speaks of Kubernetes objects and turns them into plain values.
//
// As long as there is no Queue, only what the nodes have is kept, and looking at the Board or charging a pod ends at one
// atomic load.
package queue
