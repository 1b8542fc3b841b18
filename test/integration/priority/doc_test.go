// Package priority tests, with the real scheduler against a real API server, where the priority of a PodGroup
// comes from and what it is used for.
package priority
