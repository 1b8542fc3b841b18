// Package workload identifies and ranks workloads. A workload is a gang, or a single pod: the unit
// that is scheduled, queued and retried.
//
// A [Key] identifies a workload in all parts of the scheduler and in simulations. A [Standing] is a
// workload's priority and queue. [Standing.KeepsFrom] decides which of two workloads may use
// reserved room. A [Shortage] is the reason why a workload has no room yet.
//
// [SystemCritical] is the lowest priority that the rules of queues do not affect. [IsGPU]
// recognizes GPU resources.
//
// The package does not depend on Kubernetes, so the decision code can run without it.
package workload
