// Package scheduling tests the scheduler as users run it: the real process against a real API
// server, with simulated nodes. Every test has a namespace and nodes of its own, so tests run in
// parallel.
package scheduling
