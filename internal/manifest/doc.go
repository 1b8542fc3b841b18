// Package manifest makes of what people submit (Pods, Jobs, JobSets, Deployments, PodGroups and the like) the objects that a
// scheduler would come to see: the pods that controllers would make of it, with what the API server fills in. The priorities
// come from the code that fills in those of PodGroups, in internal/controller.
//
// What admission plugins of a cluster may change on the way is not known here: defaults of a LimitRange, the overhead of a
// RuntimeClass, webhooks.
package manifest
