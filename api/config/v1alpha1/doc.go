// Package v1alpha1 is what an operator sets for each profile of the scheduler: the arguments of the plugin
// Reprieve, in a KubeSchedulerConfiguration under profiles[].pluginConfig.
//
// Arguments are read with [Decode], which is strict: a field that does not exist is an error that names it. What
// is left out has the default that its documentation names.
//
// +kubebuilder:object:generate=true
package v1alpha1
