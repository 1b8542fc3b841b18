// Package v1alpha1 has the arguments of the plugin Reprieve, which an operator sets for each
// profile of the scheduler in a KubeSchedulerConfiguration, under profiles[].pluginConfig.
//
// [Decode] reads arguments strictly: an unknown field is an error that names it. An omitted field
// has its documented default.
//
// +kubebuilder:object:generate=true
package v1alpha1
