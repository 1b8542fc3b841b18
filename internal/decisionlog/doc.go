// Package decisionlog is the log of a scheduler's decisions: the format of its lines, the latest
// records in memory, and the log file.
//
// A [Record] is one decision with its result. Its JSON has a version, [Schema]. docs/decisions.md
// describes every field. [Parse] reads a record and rejects other formats. The package uses the
// types of package core and no Kubernetes types, so that any reader of the log can import it.
//
// The log can have two other kinds of lines. [Inputs] are the inputs of decisions, as API objects
// that this package does not interpret. internal/inputs writes these lines, internal/replay reads
// them. A [WaitEnd] records how the wait of a decision's workload ended.
//
// A [Log] takes records from scheduling cycles and never makes them wait. It keeps the latest
// records in memory. It also queues each record for the goroutine of [Log.Run], which writes it. If
// that goroutine falls behind, the Log drops records and counts them. A decision whose eviction is
// under way is in memory at once ([Log.Follow]). Its line is written when its result is known.
//
// A [File] stores the lines. It is rotated by size, and no line is split between two files.
package decisionlog
