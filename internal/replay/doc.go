// Package replay decides again what a decision log holds. [Log] reads the files of a log, [Log.Replay] rebuilds the cluster at each
// decision and asks internal/whatif, the code that decides, about the same preemptor, and says where the answer is another one.
//
// A decision is decided again only where the log has all that it went by, without a gap. Where a line is missing, it is
// said of the decisions that it leaves without a cluster, until the next line that has the whole one.
package replay
