// Package preemptiontoleration evaluates the victim's side of preemption: annotations by which a
// PriorityClass exempts its pods from preemption by priorities below a minimum, for some time or
// forever. The policy is that of the scheduler-plugins proposal "Preemption Toleration".
//
// Any scheduler plugin may use it; it depends on nothing else of Reprieve. All functions are pure
// and safe for concurrent use.
//
//	policy, err := preemptiontoleration.FromPriorityClass(class)
//	if err != nil {
//		// The class has no policy then. Tell whoever wrote it.
//	}
//	tolerates, until := policy.Tolerates(preemptorPriority, scheduledAt, now)
package preemptiontoleration
