package app

import (
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

func TestGates(t *testing.T) {
	t.Parallel()
	for value, wantRefused := range map[string]bool{"": false, "GenericWorkload=false": false, "GenericWorkload=true": true} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			gates := featuregate.NewFeatureGate()
			if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{features.GenericWorkload: {PreRelease: featuregate.Beta}}); err != nil {
				t.Fatal(err)
			}
			if err := gates.Set(value); err != nil {
				t.Fatal(err)
			}
			err := checkGates(gates)
			if refused := err != nil && strings.Contains(err.Error(), "GenericWorkload"); refused != wantRefused {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
