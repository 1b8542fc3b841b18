// Package controller runs the controllers of the scheduler. They write the status of PodGroups, and
// fill in fields that users leave empty. These are the priority and preemption policy of groups and
// templates, and the fields that a group takes from a Workload's template.
//
// Other controllers create PodGroups for pods that name none (see [Derived]), write the status of
// Queues, and report faults of pods and PriorityClasses.
//
// The controllers run in the scheduler's process, on the leader. They read Pods from the
// scheduler's informer, so that no Pod is in memory twice. They read the scheduler's verdict on a
// gang from the records of package engine.
package controller
