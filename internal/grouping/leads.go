package grouping

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// MayLead reports whether a pod may be a driver, from its profile and labels alone. It implements
// gang.Derived.
func (r *Resolver) MayLead(pod *corev1.Pod) bool {
	settings, ok := r.profiles[pod.Spec.SchedulerName]
	if _, named := gang.GroupOf(pod); named || !ok {
		return false
	}
	return slices.ContainsFunc(settings.rules, func(rule *Rule) bool {
		role := pod.Labels[rule.RoleLabel]
		return rule.RoleLabel != "" && role != "" && slices.ContainsFunc(rule.Roles, func(of Role) bool { return of.Leads && of.Name == role })
	})
}

// Leads returns the number of worker pods that a driver needs, and the workers' PodGroup if they
// have one. The number is 0 if the driver and its workers are in one gang. Leads returns false if
// the pod's object does not define the pod as a driver.
func (r *Resolver) Leads(pod *corev1.Pod) (gang.Lead, bool) {
	settings, ok := r.profiles[pod.Spec.SchedulerName]
	if _, named := gang.GroupOf(pod); named || !ok {
		return gang.Lead{}, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	o, hold := r.root(pod, settings)
	if o == nil || o.plan == nil || hold != (gang.Verdict{}) || o.rule.Aside.isOn(pod) {
		return gang.Lead{}, false
	}
	unit := o.unitOf(pod)
	p := o.planOf(unit)
	if p.flaw != "" {
		return gang.Lead{}, false
	}
	sizes := o.sizes(p, unit)
	own, ok := roleOf(o.rule, sizes, pod)
	if !ok || !slices.ContainsFunc(o.rule.Roles, func(of Role) bool { return of.Leads && of.Name == own.Name }) {
		return gang.Lead{}, false
	}
	return o.leadOf(settings, unit, p, &own, sizes), true
}

// leadOf returns the number and the PodGroup of the workers that a driver needs. The argument own
// is the size of the driver's role, and sizes has the sizes of all roles in the replica.
func (o *object) leadOf(settings *Settings, unit string, p *plan, own *Size, sizes []Size) gang.Lead {
	workers, mayCome := 0, false
	var roles []string
	for _, role := range sizes {
		if role.Name != own.Name && !role.Alone {
			workers, mayCome = workers+int(role.Count), mayCome || role.MayCome
			roles = append(roles, role.Name)
		}
	}
	switch {
	case workers > 0 && !own.Alone:
		// The driver and its workers are in one gang.
		return gang.Lead{}
	case workers == 0 && mayCome:
		workers = 1
	}
	out := gang.Lead{Workers: workers}
	if !p.grouped(settings) {
		return out
	}
	s := suffix{unit: unit}
	switch {
	case p.perRole && len(roles) == 1:
		s.role = roles[0]
	case p.perRole:
		return out
	}
	out.Group = types.NamespacedName{Namespace: o.namespace, Name: groupName(o, s)}
	return out
}
