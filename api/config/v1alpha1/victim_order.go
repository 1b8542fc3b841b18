package v1alpha1

import (
	"slices"
	"strings"
)

// VictimOrders returns the valid lists of victimOrder for a cascade mode. The first list is the
// default. The second list is the order of KEP-5710.
func VictimOrders(mode CascadeMode) [][]VictimCriterion {
	orders := [][]VictimCriterion{
		{BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods, Surplus, StartTime},
		{BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, StartTime},
		{BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, Repeated, StartTime},
		{BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods, Surplus, Repeated, StartTime},
	}
	if mode == CascadeDecide {
		for i, order := range orders {
			orders[i] = slices.Insert(order, slices.Index(order, Surplus)+1, Cascade)
		}
	}
	return orders
}

// PriorityOrder returns the list of victimOrder that compares by priorities and not by lost work,
// the order of KEP-5710.
func PriorityOrder(mode CascadeMode) []VictimCriterion { return VictimOrders(mode)[1] }

// CountsLostWork reports whether victimOrder has the criterion LostWork.
func (args *ReprieveArgs) CountsLostWork() bool { return slices.Contains(args.VictimOrder, LostWork) }

// CountsStops reports whether victimOrder has the criterion Repeated, which counts the stops of
// groups.
func (args *ReprieveArgs) CountsStops() bool { return slices.Contains(args.VictimOrder, Repeated) }

// MilliDevices returns how many thousandths of a device one unit of a resource counts as.
func (args *LostWorkArgs) MilliDevices(name string) int64 {
	if weight, isListed := args.Weights[name]; isListed {
		return weight.MilliValue()
	}
	if isExtended(name) {
		return 1000
	}
	return 0
}

// isExtended reports whether a name denotes an extended resource.
func isExtended(name string) bool {
	domain, rest, hasDomain := strings.Cut(name, "/")
	return hasDomain && domain != "" && rest != "" && !strings.HasSuffix(domain, "kubernetes.io")
}
