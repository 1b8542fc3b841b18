package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// DriverOf returns the workers that a driver needs. It returns false if the pod is no driver, if it
// needs no workers, or if its profile does not bound the number of drivers.
func (r *Index) DriverOf(pod *corev1.Pod) (gang.Lead, bool) {
	args := r.Profiles.Of(pod.Spec.SchedulerName)
	if args == nil || !*args.WorkloadAware || *args.Drivers.WithoutWorkers == 0 || !gang.MayDrive(pod, r.Derived) {
		return gang.Lead{}, false
	}
	said, says := gang.Leads(pod)
	lead, known := r.Derived.Leads(pod)
	labeled := gang.IsDriver(pod)
	switch {
	case says:
		lead.Workers = said
	case known && (labeled || lead.Group.Name != ""):
		// Without the labels or a PodGroup, nothing would identify the workers, so the number from
		// the owner would have no effect.
	case labeled:
		lead = gang.Lead{Workers: 1}
	default:
		return gang.Lead{}, false
	}
	return lead, lead.Workers > 0
}

// WorkersOf returns the number of a driver's workers that have a node, and the number of all its
// workers.
func (r *Index) WorkersOf(driver *corev1.Pod, lead gang.Lead) (placed, all int) {
	found := r.Lister.Workers(driver)
	if lead.Group.Name != "" {
		members := r.Lister.Members(lead.Group)
		found = slices.Concat(found, members.Pending, members.Gated, members.Assigned, members.Succeeded)
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	found = slices.CompactFunc(found, func(a, b *corev1.Pod) bool { return a.UID == b.UID })
	for _, pod := range found {
		if pod.UID == driver.UID || pod.DeletionTimestamp != nil {
			continue
		}
		all++
		if pod.Spec.NodeName != "" {
			placed++
		}
	}
	return placed, all
}
