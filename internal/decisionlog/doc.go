// Package decisionlog is the log of a scheduler's decisions: the format of its lines, the latest
// records in memory, and the file.
//
// A [Record] is one decision with its result. Its JSON has a version, [Schema]. docs/decisions.md
// describes every field. [Parse] reads a record and rejects other formats. The package has the
// decisions of package core and no Kubernetes types, so that any reader of the log can import it.
//
// The log can also have lines with [Inputs]: the inputs of decisions, as API objects that this
// package does not interpret. internal/inputs writes them, internal/replay reads them. A [WaitEnd]
// records how the wait of a decision's workload ended.
//
// A [Log] takes records from scheduling cycles, which must not wait. It keeps the latest records in
// memory and queues each one for a single goroutine, [Log.Run], which writes it. If the goroutine
// falls behind, the file lacks some records, and they are counted. A decision whose eviction is
// under way is in memory at once ([Log.Follow]), and in the file when its result is known.
//
// A [File] stores the lines. It is rotated by size, and no line is split.
package decisionlog
