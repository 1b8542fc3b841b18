// Package workload identifies and ranks the units of scheduling: gangs and single pods.
//
// A [Key] identifies a workload in admission, in reservations, in the scheduler's plans and orders,
// and in simulations. A [Standing] is a workload's priority and queue. [Standing.KeepsFrom] decides
// between two workloads that compete for the same reserved room.
//
// [SystemCritical] is the lowest priority that ignores queues. [IsGPU] recognizes GPU resources.
//
// The package does not depend on Kubernetes, so the decision code can run without it.
package workload
