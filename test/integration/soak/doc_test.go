// Package soak has two schedulers, of which one leads, work for a while on a cluster in which work comes and goes, nodes are lost,
// and faults follow one another, and checks all the while that what Reprieve promises is kept: test/integration/soak/invariants.
//
// What is checked is read from etcd itself, so that no state is missed and all are in the order in which they came about, whatever
// becomes of the API server. make soak has it last an hour, and writes docs/results/endurance.md.
package soak
