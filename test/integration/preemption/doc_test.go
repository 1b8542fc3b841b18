// Package preemption tests preemptions on a real API server. A proxy delays the calls of the
// scheduler, or makes them fail. The tests cover the race conditions of KEP-4832, and the delayed
// preemption of KEP-5710.
package preemption
