package scheduler

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// TestSeatsOfExtendersResources checks that members that request a resource of an extender fit
// beside the reservations of other members.
func TestSeatsOfExtendersResources(t *testing.T) {
	t.Parallel()
	extenders := []config.Extender{{
		URLPrefix:        "http://127.0.0.1:1", // It has no verbs, so it is not called.
		ManagedResources: []config.ExtenderManagedResource{{Name: "example.com/widget", IgnoredByScheduler: true}},
	}}
	r := newRigExtended(t, extenders, nodes(1, "2")...)
	r.gangOf("g", 2, 10)
	all := members("g", 2, "1", 10)
	for _, p := range all {
		p.Spec.Containers[0].Resources.Requests["example.com/widget"] = resourceMustParse("1")
	}
	r.create(all...)
	r.eventually("the gang is complete", func() bool { return len(r.active()) == 1 })
	r.cycle()
	r.eventually("the other member follows", func() bool { return len(r.active()) == 1 })
	r.cycle()
	r.waitBound("g-0", "g-1")
}
