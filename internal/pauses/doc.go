// Package pauses determines which workloads must not preempt for some time, and reports why. A
// preemptor is paused if it could not be bound after pods were evicted for it, or if it crashed
// after its start. Each further failure doubles the pause, up to a maximum of the profile. This
// bounds the pods that a broken workload can evict in vain.
//
// The records of failures and crashes are in internal/engine. [Pauses] reads pods and PodGroups,
// and passes their failures, crashes and changes to the engine. The scheduler calls it at the ends
// of cycles and evictions, and the handlers of the informers report changes of pods.
package pauses
