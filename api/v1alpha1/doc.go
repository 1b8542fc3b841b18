// Package v1alpha1 is the API of Reprieve for users: Workload, PodGroup and Queue of the group
// reprieve.dev.
//
// A Pod joins a PodGroup of its own namespace with the label in [LabelPodGroup]. The PodGroup
// defines the placement of its members: one by one, or as a gang. It also defines their disruption,
// one by one or together, and the priority for both. A Workload holds templates for PodGroups. A
// Queue is one node of the cluster-wide tree of teams that share capacity.
//
// The API server rejects errors that a single object shows: the CEL rules are markers beside the
// fields. Errors that depend on other objects become conditions.
//
// +kubebuilder:object:generate=true
// +groupName=reprieve.dev
package v1alpha1
