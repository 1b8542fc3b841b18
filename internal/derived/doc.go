// Package derived finds the groups that a scheduler derives for the pods of an inventory, and
// completes their PodGroups. It applies internal/grouping to stored objects: rules, users' choices
// and the writing of PodGroups are the code that the scheduler runs.
//
// The objects count as they are, as for a scheduler that has just started. Pods whose objects are
// of a kind that the inventory lacks are gated, and the verdict gives the reason.
package derived
