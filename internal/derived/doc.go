// Package derived knows the groups that a scheduler derives for the pods of an inventory, and what their PodGroups are like. It is
// internal/grouping on values: the rules, the choices of users and the writing of PodGroups are the scheduler's own.
//
// It goes by what objects say now, as a scheduler does that has just started. Of a kind whose objects are not in the inventory, pods
// are held back, and the reason is named.
package derived
