// Package parity holds Reprieve's plugin against upstream's own preemption: on generated clusters, both decide
// for the same pod on the same snapshot with the same Filter plugins.
package parity
