// Package workload names what is placed and preempted as one, a gang or a single pod, and says how it stands beside
// others.
//
// A [Key] is made where a pod or a PodGroup comes in, and everything behind that knows the workload by it: the waiting list
// (internal/admission), the book of promised room (internal/reservation), the scheduler's plans and orders, and a simulation. A
// [Standing], its priority and its queue, goes along with what the workload is promised: where others ask for the same room,
// [Standing.KeepsFrom] says who has it, in a cluster as in a simulation. [SystemCritical] is from which priority on queues are
// of no account, in the core as well; [IsGPU] tells the resources that people count work by.
//
// It is plain Go, so that what decides can be run without Kubernetes.
package workload
