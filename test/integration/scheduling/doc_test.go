// Package scheduling tests the scheduler's binary with a real API server and simulated nodes. Each
// test has its own namespace and nodes, so tests run in parallel.
package scheduling
