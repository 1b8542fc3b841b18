// Package leaving records the pods that will terminate although their objects do not show it yet.
// These are the victims of evictions under way, and the members that PodGroups list as disrupted.
// The package also records the terminating pods that are overdue.
//
// The package does not depend on internal/scheduler. The scheduler reports evictions, deletions and
// lists of disrupted members to [Pods], and asks Pods about single pods.
package leaving
