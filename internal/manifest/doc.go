// Package manifest converts submitted objects (Pods, Jobs, JobSets, Deployments, PodGroups and the
// like) to the objects that a scheduler would see. These include the pods that controllers would
// create, with the defaults of the API server. Code in internal/controller sets the priorities, as
// it does for PodGroups.
//
// The package does not apply the changes of a cluster's admission plugins: defaults of a
// LimitRange, the overhead of a RuntimeClass, webhooks.
package manifest
