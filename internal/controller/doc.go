// Package controller writes the status of PodGroups and fills in fields that users leave empty.
// These are the priority and preemption policy of groups and templates, and the fields that a group
// takes from a Workload's template.
//
// It also creates the PodGroups of derived groups, writes the status of Queues, and reports pods
// and PriorityClasses with faults.
//
// The controllers run in the scheduler's process, on the leader. They read Pods from the
// scheduler's informer, so that no Pod is in memory twice. They read the scheduler's verdict on a
// gang from the records in internal/engine.
package controller
