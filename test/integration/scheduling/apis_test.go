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

// startOf returns the start time of a PodGroup, or nil. A PodGroup of scheduling.k8s.io has a
// condition for the start time, instead of a field in its status.
func startOf(obj client.Object) *metav1.Time {
	if pg, ok := obj.(*v1alpha1.PodGroup); ok {
		return pg.Status.StartTime
	}
	if c := meta.FindStatusCondition(stage.ConditionsOf(obj), native.ConditionStarted); c != nil && c.Status == metav1.ConditionTrue {
		return &c.LastTransitionTime
	}
	return nil
}

// onBothAPIs runs a test twice in parallel: with PodGroups of reprieve.dev, and with PodGroups of
// scheduling.k8s.io.
func onBothAPIs(t *testing.T, test func(*env)) {
	t.Helper()
	for _, api := range stage.GroupAPIs(t) {
		t.Run(api.Name, func(t *testing.T) {
			t.Parallel()
			test(newEnv(t, api))
		})
	}
}

// oneByOne is like onBothAPIs, but does not run the tests in parallel.
func oneByOne(t *testing.T, test func(*env)) {
	t.Helper()
	for _, api := range stage.GroupAPIs(t) {
		t.Run(api.Name, func(t *testing.T) { test(newEnv(t, api)) })
	}
}

// each runs each case of a table with the PodGroups of each API, all in parallel. Each run has its
// own environment.
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
