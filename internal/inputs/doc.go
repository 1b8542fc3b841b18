// Package inputs records the inputs of decisions in the decision log, so that a replay can make the
// decisions again. A [Recorder] follows all objects that decisions depend on. Each decision passes
// its own inputs to [Recorder.Seen].
//
// Nodes and the pods on them come from the snapshot of the decision. All other objects come from
// informers, in the state that the informers have at that time. A scheduling cycle only compares
// pointers and queues the changes. The goroutine that writes the log encodes and writes the
// objects.
//
// No change is lost silently. If the queue is full, the changes are part of the next line. If a
// line could not be written, the next line contains the whole cluster, as at the start of each
// file.
package inputs
