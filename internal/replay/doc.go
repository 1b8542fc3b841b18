// Package replay repeats the decisions of a decision log. [Log] reads the files of a log.
// [Log.Replay] restores the cluster of each decision and calls internal/whatif, which runs the
// scheduler's own code for the same preemptor. It reports the decisions with a different result.
//
// A decision can be repeated only if the log has all its inputs. After a missing line, decisions
// are [Unknown] until the next line that contains the whole cluster.
package replay
