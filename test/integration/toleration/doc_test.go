// Package toleration plays the two use cases of the proposal "Preemption Toleration", from examples/, on a real
// API server.
package toleration
