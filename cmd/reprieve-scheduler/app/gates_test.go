package app

import (
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

func TestGates(t *testing.T) {
	t.Parallel()
	for value, wantRefused := range map[string]string{
		"":                      "",
		"GenericWorkload=false": "",
		"GenericWorkload=true":  "GenericWorkload",
		"InPlacePodVerticalScalingSchedulerPreemption=false": "",
		"InPlacePodVerticalScalingSchedulerPreemption=true":  "InPlacePodVerticalScalingSchedulerPreemption",
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			gates := featuregate.NewFeatureGate()
			if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
				features.GenericWorkload:                              {PreRelease: featuregate.Beta},
				features.InPlacePodVerticalScalingSchedulerPreemption: {PreRelease: featuregate.Alpha},
			}); err != nil {
				t.Fatal(err)
			}
			if err := gates.Set(value); err != nil {
				t.Fatal(err)
			}
			err := checkGates(gates)
			if (err != nil) != (wantRefused != "") || err != nil && !strings.Contains(err.Error(), wantRefused) {
				t.Errorf("the error is %v, want one about %q", err, wantRefused)
			}
		})
	}
}
