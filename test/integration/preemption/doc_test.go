// Package preemption carries preemptions out on a real API server that is slow, or fails, for the scheduler alone:
// the races of KEP-4832, and the delayed preemption of KEP-5710.
package preemption
