// Package soak is an endurance test. It runs two schedulers, a leader and a standby, on a cluster.
// During the test, it creates and deletes work, deletes nodes, and causes one fault after another.
// It continuously checks the guarantees of Reprieve, which test/integration/soak/invariants
// defines.
//
// The test reads the states of objects from etcd. So it sees every state in the correct order, even
// if the API server fails. make soak runs the test for an hour, and writes
// docs/results/endurance.md.
package soak
