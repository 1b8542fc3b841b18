// Package replay makes the decisions of a decision log again. [Log] reads the files of a log.
// [Log.Replay] rebuilds the cluster of each decision and asks internal/whatif, which runs the
// scheduler's own code, about the same preemptor. It reports where the results differ.
//
// A decision can be made again only if the log has all its inputs, without a gap. After a missing
// line, the decisions are reported as [Unknown] until a line has the whole cluster.
package replay
