// Package v1alpha1 is the API of Reprieve for users: Workload, PodGroup, CompositePodGroup and
// Queue of the group reprieve.dev.
//
// A Pod joins a PodGroup with the label [LabelPodGroup], whose value is the name of a PodGroup in
// the Pod's namespace. The PodGroup determines whether its members are placed one by one or as a
// gang. It also determines whether they are preempted one by one or together, and their priority. A
// CompositePodGroup combines PodGroups into a tree that is placed as a unit. A Workload holds
// templates for PodGroups. A Queue is one node of the cluster-wide tree of teams that share
// capacity.
//
// CEL rules, in markers beside the fields, let the API server reject errors within one object.
// Reprieve reports errors that depend on other objects in conditions.
//
// +kubebuilder:object:generate=true
// +groupName=reprieve.dev
package v1alpha1
