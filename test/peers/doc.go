// Package peers runs test cases of other schedulers, the peers, with Reprieve's core.
//
// Each file in testdata has the cases of one table of tests: nodes, queues, running and pending
// work, and the outcome that the peer expects. The files belong to this project and contain no code
// of the peers. The name of each case is its name in the peer's repository.
//
// [Play] runs a [Case]: it decides for one pending workload after the other, in the order of the
// queues, until no workload changes. Victims terminate at once and become pending. The outcome is
// the number of running pods of each workload. If the outcome differs from the peer's, the file
// also has Reprieve's outcome, and names the rule or document that explains the difference.
// [Table.Compare] counts the cases with and without a difference.
//
// # Settings of the peers
//
// KAI: deserved GPUs are quotas, and over-quota weights are weights. Limits and priorities of
// queues have the same meaning. A department is a parent queue; the weight of the queue is the
// quota of the department. Work with a priority of at least 100 is fixed, because KAI does not
// preempt it.
//
// Kueue: nominal quotas are quotas. A limit is the sum of the nominal quota and the borrowing
// limit. Cohorts are parent queues. Their quota is the sum of the quotas below them and their own
// quota. The topmost cohort has no queue; its own capacity is a node. Fair weights are weights.
// Lending limits and policies have no counterpart in Reprieve, so the files mention them in notes.
// Each flavor of a resource is a resource.
//
// Volcano: the tests permit victims in all other queues. So the queue of the reclaimer has a quota
// that lets it reclaim from them.
//
// # Format
//
// Each line of a file begins with its kind. If the line is about an object, the name of the object
// follows. The other words are settings, as name=value. Amounts are numbers for each resource,
// separated by commas. "max" means that there is no bound.
//
//	source OWNER/REPOSITORY FILE COMMIT
//	skipped COUNT REASON
//	decide once
//	case NAME
//	resources NAME...
//	node NAME AMOUNTS
//	queue NAME quota=AMOUNTS [parent=QUEUE] [weight=N] [priority=N] [limit=AMOUNTS]
//	work NAME [queue=QUEUE] [priority=N] request=AMOUNTS [pods=N] [min=N] [on=NODE,...]
//	[since=N] [fixed] [leaving] [stale]
//	note TEXT
//	peer NAME PODS
//	ours NAME PODS
//	because RULE TEXT
//
// These rules apply:
//
//   - If the pods of a workload have different requests, "|" separates the requests.
//   - The node "-" means that a pod does not run.
//   - A workload with "fixed" is never evicted.
//   - With "decide once", victims do not become pending.
//   - A workload without a line "peer" must keep its state.
//   - Lines "ours" exist only for workloads whose outcome differs from the peer's outcome.
package peers
