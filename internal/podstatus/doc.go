// Package podstatus writes what the scheduler has to say of pending pods: status.nominatedNodeName and the condition
// PodScheduled. It does so off the scheduling cycle, which kube-scheduler does not: there, a cycle that finds no room
// ends with a call to the API server, and the next pod waits for it (KEP-4832 takes the other calls of a preemption off
// the cycle, KEP-5229 is about these).
//
// What is said of one pod is written one call after the other, and only what was said last: a pod that is bound
// before its turn comes causes no call at all. A binding waits for the call that is under way for its pod, so that
// "PodScheduled: False" never comes after it.
//
// A pod that an extender binds does not come by here before its informer tells of that ([Writer.Bound]): a call that is under way may then
// come after its binding, as it may with upstream's asynchronous calls.
//
// Others than the framework have something to say of a pod's condition as well ([Writer.Say]): kube-scheduler speaks of the pods
// that were in a cycle, and of a gang that is one member. All of it goes through one place, so that the last word is written and
// none comes after the pod has been bound.
//
// A [Writer] takes the framework's place for these calls as its APICacher, and the evictor's for nominations.
package podstatus
