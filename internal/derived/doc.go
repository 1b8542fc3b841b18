// Package derived finds the groups that a scheduler would derive for the pods of an inventory, and
// completes the PodGroups of the inventory with them. It runs internal/grouping, the scheduler's
// own code, on stored objects.
//
// The package treats the objects as a scheduler that has just started. If the inventory lacks the
// kind of a pod's owner, the pod is gated, and the verdict has the reason.
package derived
