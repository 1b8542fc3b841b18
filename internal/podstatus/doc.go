// Package podstatus writes the scheduler's status of pending pods, which is
// status.nominatedNodeName and conditions such as PodScheduled. It writes outside the scheduling
// cycle. In kube-scheduler, a cycle that finds no room ends with a call to the API server, and the
// next pod waits for that call. KEP-5229 describes these calls, KEP-4832 the other calls of a
// preemption.
//
// The calls for one pod run one after the other, and each call writes only the latest status. If a
// pod is bound before its status is written, the status is not written. A binding waits for the
// current call for its pod, so "PodScheduled: False" is never written after the binding.
//
// If an extender binds a pod, the Writer learns of the binding only from the informer's event, by
// [Writer.Bound]. In this case, it may write a status after the binding, as in kube-scheduler with
// asynchronous calls.
//
// A [Writer] has three users. The framework uses it as its APICacher. The evictor writes
// nominations with it. Other code sets conditions with [Writer.Say]. Because all of them share one
// Writer, the latest status is written last.
package podstatus
