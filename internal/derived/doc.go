// Package derived finds the groups that a scheduler would derive for the pods of an inventory, and
// completes the PodGroups of the inventory with them. It runs internal/grouping, the scheduler's
// own code, on stored objects.
//
// The package treats the objects as a scheduler that has just started. Pods are gated if their
// owner is of a kind that the inventory lacks. The verdict then has the reason.
package derived
