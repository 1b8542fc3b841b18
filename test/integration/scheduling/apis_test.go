package scheduling

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// startOf returns the time since when minCount members run together, or nil. PodGroups of
// scheduling.k8s.io have no field for that, and have a condition instead.
func startOf(obj client.Object) *metav1.Time {
	if pg, ok := obj.(*v1alpha1.PodGroup); ok {
		return pg.Status.StartTime
	}
	if c := meta.FindStatusCondition(stage.ConditionsOf(obj), native.ConditionStarted); c != nil && c.Status == metav1.ConditionTrue {
		return &c.LastTransitionTime
	}
	return nil
}

// onBothAPIs runs a test in parallel with the PodGroups of each API.
func onBothAPIs(t *testing.T, test func(*env)) {
	t.Helper()
	for _, api := range stage.GroupAPIs(t) {
		t.Run(api.Name, func(t *testing.T) {
			t.Parallel()
			test(newEnv(t, api))
		})
	}
}

// oneByOne is onBothAPIs for tests that must not run beside other tests.
func oneByOne(t *testing.T, test func(*env)) {
	t.Helper()
	for _, api := range stage.GroupAPIs(t) {
		t.Run(api.Name, func(t *testing.T) { test(newEnv(t, api)) })
	}
}

// each runs the cases of a table in parallel, with the PodGroups of each API. Each case has an
// environment of its own.
func each[C any](t *testing.T, cases map[string]C, run func(*env, C)) {
	t.Helper()
	for name, c := range cases {
		for _, api := range stage.GroupAPIs(t) {
			t.Run(name+"/"+api.Name, func(t *testing.T) {
				t.Parallel()
				run(newEnv(t, api), c)
			})
		}
	}
}
