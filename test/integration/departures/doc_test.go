// Package departures tests preemptions in which something goes wrong while victims terminate, on a
// real API server: lost nodes, pods that do not terminate, and budgets with an outdated status.
package departures
