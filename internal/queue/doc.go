// Package queue keeps the quota ledger: the Queues, the usage and demand of their work, and their
// fair shares. The scheduler and its controllers share one [Ledger]. Informers keep it up to date.
//
// This package converts Kubernetes objects to plain values. From these, package
// internal/core/fairshare computes fair shares and the order of admission. Package internal/core
// decides which units may be evicted.
//
// If no Queue exists, the Ledger records only nodes, and most calls return after one atomic load.
package queue
