// Package v1alpha1 is the API that users of Reprieve write: Workload, PodGroup and Queue of the group
// reprieve.dev.
//
// A Pod joins a PodGroup of its own namespace with the label in [LabelPodGroup]. The PodGroup says how
// its members are placed (one by one, or as a gang), how they may be disrupted (one by one, or together)
// and at which priority both happen. A Workload holds templates for PodGroups. A Queue is one node of the
// cluster-wide tree by which teams share capacity.
//
// What a single object can show to be wrong is refused by the API server (the CEL rules stand as markers
// beside the fields); what takes other objects to see becomes a condition.
//
// +kubebuilder:object:generate=true
// +groupName=reprieve.dev
package v1alpha1
