// Package departures tests preemptions with problems during the termination of victims, on a real
// API server. A node is lost, a pod does not terminate, or the status of a PodDisruptionBudget is
// outdated.
package departures
