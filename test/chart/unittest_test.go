package chart

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSuites runs the test suites in the chart with helm-unittest.
func TestSuites(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../../hack/tools/helm-unittest/go.mod", "helm-unittest", "--strict", chartDir)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Logf("%s", output)
}

// TestPackage checks that the packed chart does not contain the test suites.
func TestPackage(t *testing.T) {
	t.Parallel()
	for _, file := range load(t).Raw {
		if strings.HasPrefix(file.Name, "tests/") {
			t.Errorf("the chart has %s", file.Name)
		}
	}
}
