// Package manifest converts submitted objects (Pods, Jobs, JobSets, Deployments, PodGroups and the
// like) to the objects that a scheduler would see. These include the pods that controllers would
// create, with the defaults of the API server. The code of internal/controller fills in their
// priorities, as it does in a cluster.
//
// The package does not apply the changes of a cluster's admission plugins, such as defaults of a
// LimitRange, the overhead of a RuntimeClass, or webhooks.
package manifest
