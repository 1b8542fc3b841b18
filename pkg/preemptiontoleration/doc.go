// Package preemptiontoleration evaluates the victim's side of preemption. Annotations of a
// PriorityClass exempt its pods from preemption by priorities below a minimum, for some time or
// forever. The policy implements the scheduler-plugins proposal "Preemption Toleration".
//
// Any scheduler plugin may use this package; it has no other dependency on Reprieve. All functions
// are pure and safe for concurrent use.
//
//	policy, err := preemptiontoleration.FromPriorityClass(class)
//	if err != nil {
//		// The class has no policy then. Inform its author.
//	}
//	tolerates, until := policy.Tolerates(preemptorPriority, scheduledAt, now)
package preemptiontoleration
