// Package preemptiontoleration evaluates the victim's side of preemption. Annotations of a
// PriorityClass protect its pods from preemptors whose priority is below a minimum, for some time
// or forever. The scheduler-plugins proposal "Preemption Toleration" defines the annotations.
//
// Any scheduler plugin may use this package. The package has no other dependency on Reprieve. All
// functions are pure and safe for concurrent use.
//
//	policy, err := preemptiontoleration.FromPriorityClass(class)
//	if err != nil {
//		// The annotations of the class are invalid, so the class has no policy.
//	}
//	tolerates, until := policy.Tolerates(preemptorPriority, scheduledAt, now)
package preemptiontoleration
