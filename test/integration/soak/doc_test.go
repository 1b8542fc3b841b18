// Package soak runs two schedulers, one of which leads, on a cluster while work is created and
// deleted, nodes are lost, and one fault follows another. It checks the guarantees of Reprieve all
// the time; test/integration/soak/invariants defines the checks.
//
// The states to check are read from etcd itself, so that no state is missed and all are in their
// order, regardless of faults of the API server. make soak runs for an hour, and writes
// docs/results/endurance.md.
package soak
