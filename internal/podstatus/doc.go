// Package podstatus writes the scheduler's status of pending pods: status.nominatedNodeName and the
// condition PodScheduled. It does so outside the scheduling cycle. In kube-scheduler, a cycle that
// finds no room ends with a call to the API server, and the next pod waits for that call. KEP-5229
// describes these calls, KEP-4832 the other calls of a preemption.
//
// The calls for one pod run one after the other, and each writes only the latest status. A pod that
// is bound before its status is written causes no status call. A binding waits for the call under
// way for its pod, so that "PodScheduled: False" is never written after the binding.
//
// If an extender binds a pod, the Writer learns of it from the informer ([Writer.Bound]). A call
// under way may then follow the binding, as with upstream's asynchronous calls.
//
// Code outside the framework sets conditions with [Writer.Say]. All writes go through one Writer,
// so the latest status is written last, and no status follows a binding.
//
// A [Writer] has two users: the framework uses it as its APICacher, and the evictor writes
// nominations with it.
package podstatus
