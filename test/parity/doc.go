// Package parity compares Reprieve's plugin with upstream's own preemption. On generated clusters,
// both decide for the same pod, on the same snapshot, with the same Filter plugins.
package parity
