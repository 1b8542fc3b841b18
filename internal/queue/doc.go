// Package queue keeps the quota ledger: the queues, the usage and demand of their work, and their
// entitlements. The scheduler and its controllers share one [Ledger], which informers keep up to
// date.
//
// Package internal/core/fairshare computes fair shares and turns from the ledger, and internal/core
// decides which units may be evicted. This package converts Kubernetes objects to the plain values
// that they need.
//
// Without any Queue, the Ledger only records nodes. Most calls then return after one atomic load.
package queue
