// Package priority tests the origin of a PodGroup's priority, and its effects, with the real
// scheduler and a real API server.
package priority
