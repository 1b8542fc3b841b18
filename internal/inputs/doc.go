// Package inputs records the inputs of decisions in the decision log, so that a replay can repeat
// the decisions. A [Recorder] follows all objects that decisions depend on. For each decision, the
// scheduler calls [Recorder.Seen] with the inputs that only the scheduler has.
//
// Nodes and the pods on them come from the snapshot of the scheduling cycle. All other objects come
// from informers, in their state at the time of the decision. The scheduling cycle only compares
// pointers and queues the changes. The goroutine of the log encodes and writes the objects.
//
// No change is lost. If the queue of the log is full, the next queued line contains the changes. If
// a line cannot be written, the next line contains the whole cluster. Each file also starts with a
// line that contains the whole cluster.
package inputs
