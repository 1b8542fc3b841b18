// Package eviction carries out what a core.Decision takes away from others.
//
// The order of calls makes a group that has begun to go recognisable: the intent comes first, as the
// DisruptionTarget condition of each victim PodGroup, then the pods, each with a DisruptionTarget condition
// of its own and a delete that is bound to its UID. Both conditions name the preemptor and the rule that
// allowed it; the pod's grace period is honoured. Victims that have not been bound yet are turned back in
// the scheduler's memory instead.
package eviction
