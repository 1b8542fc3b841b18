// Package peers runs situations of other schedulers' tests through Reprieve's core.
//
// Each file in testdata holds the situations of one table of tests: nodes, queues, running and
// pending work, and the outcome that the peer expects. The files are data of this project. They
// hold no code of the peers, and the name of each case cites its source.
//
// A [Case] is played with [Play]: pending work is decided one workload after the other, in the
// order of the queues, until nothing changes. Victims terminate at once and wait again. The outcome
// is the number of running pods of each workload. Where it differs from the peer's, the file states
// the outcome of Reprieve and the rule or document that explains the difference. [Table.Compare]
// counts both.
//
// # Settings of the peers
//
// KAI's deserved GPUs are quotas, and its over-quota weights are weights. Limits and priorities of
// queues are the same. A department is a parent queue whose weight is its quota. Work of priority
// 100 and more is fixed, because KAI does not preempt such work.
//
// Kueue's nominal quotas are quotas, and a borrowing limit is a limit of both together. Cohorts are
// parent queues with the quotas below them and their own. The cohort at the top has no queue: its
// capacity is a node. Fair weights are weights. Lending limits and policies are notes, because no
// setting of Reprieve matches them. Each flavor of a resource is a device.
//
// Volcano's tests admit every candidate of another queue. The reclaimer's queue has a quota for
// that reason.
//
// # Format
//
// A file consists of lines. The first words of a line are its kind and, for objects, a name. The
// other words are settings, as name=value. Amounts list a value for each resource, with commas
// between them; "max" is no bound.
//
//	source OWNER/REPOSITORY FILE COMMIT
//	skipped COUNT REASON
//	decide once
//	case NAME
//	  resources NAME...
//	  node NAME AMOUNTS
//	  queue NAME quota=AMOUNTS [parent=QUEUE] [weight=N] [priority=N] [limit=AMOUNTS]
//	  work NAME [queue=QUEUE] [priority=N] request=AMOUNTS [pods=N] [min=N] [on=NODE,...]
//	       [since=N] [fixed] [leaving] [stale]
//	  note TEXT
//	  peer NAME PODS
//	  ours NAME PODS
//	  because RULE TEXT
//
// Several requests, one for each pod, are separated by "|". A node of "-" is no node. A fixed
// workload is never evicted. With "decide once", victims do not wait again. Work without a line
// "peer" keeps its state. The lines "ours" list only the workloads whose outcome differs.
package peers
