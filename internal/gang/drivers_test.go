package gang

import (
	"strings"
	"testing"

	"github.com/reprieve-dev/reprieve/deploy"
)

// TestPolicySealsDrivers checks that the admission policy for scheduled pods names every label by
// which the scheduler recognizes drivers and workers.
func TestPolicySealsDrivers(t *testing.T) {
	t.Parallel()
	policy, err := deploy.API.ReadFile("admission-placed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range knownDrivers() {
		for _, label := range append([]string{of.role}, of.application...) {
			if !strings.Contains(string(policy), "'"+label+"'") {
				t.Errorf("the policy does not seal %s", label)
			}
		}
	}
}
