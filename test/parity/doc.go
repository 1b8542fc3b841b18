// Package parity compares the decisions of Reprieve's plugin with upstream's preemption on
// generated clusters. Both sides decide for the same pod, with the same snapshot and the same
// Filter plugins.
package parity
