// Package controller keeps the status of PodGroups, and fills in what users leave to Reprieve: the priority and
// preemption policy of groups and templates, and the fields that a group takes from a Workload's template.
//
// The controllers run in the scheduler's process, on the leader. They read Pods from the scheduler's own
// informer, so that no Pod is held in memory twice, and what the scheduler has to say of a gang from the
// registry in internal/gang.
package controller
