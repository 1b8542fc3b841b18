// Package preemption tests preemptions on a real API server whose calls are slow or fail for the
// scheduler alone: the race conditions of KEP-4832, and the delayed preemption of KEP-5710.
package preemption
