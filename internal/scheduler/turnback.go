package scheduler

import corev1 "k8s.io/api/core/v1"

// TurnBack returns a victim that waits at Permit or is in PreBind to the queue. Such a victim has
// not started anywhere, so it need not be deleted. TurnBack returns false for a victim that is
// bound or being bound.
func (p *Plugin) TurnBack(victim *corev1.Pod) bool {
	const why = "preempted before it was bound"
	if !p.IsUnbound(victim) {
		return false
	}
	if p.sched.releases.rejectAtPermit(victim.UID, why) {
		return true
	}
	if p.sched.releases.cancelBinding(victim.UID, why) {
		return true
	}
	// A victim that is no longer assumed was returned to the queue already, unless it has just been
	// bound.
	return !p.sched.records.IsAssumed(string(victim.UID)) && p.IsUnbound(victim)
}

// IsUnbound reports whether the victim has no node in the informer's cache.
func (p *Plugin) IsUnbound(victim *corev1.Pod) bool {
	now, err := p.sched.index.Pods.Pods(victim.Namespace).Get(victim.Name)
	return err == nil && now.UID == victim.UID && now.Spec.NodeName == ""
}
