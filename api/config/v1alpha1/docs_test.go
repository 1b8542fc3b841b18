package v1alpha1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestDocumentedExamples: every example of docs/configuration.md is one that the scheduler takes.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(raw), "```yaml\n")[1:]
	if len(examples) < 2 {
		t.Fatal("the page has no examples")
	}
	for i, text := range examples {
		text, _, _ = strings.Cut(text, "```")
		args := []byte(text)
		if i == 0 {
			args = argsOf(t, text)
		}
		if _, err := Decode(&runtime.Unknown{Raw: args}); err != nil {
			t.Errorf("%v in the example\n%s", err, text)
		}
	}
}

// argsOf finds the arguments in a whole configuration.
func argsOf(t *testing.T, text string) []byte {
	t.Helper()
	var config struct {
		Profiles []struct {
			PluginConfig []struct {
				Args map[string]any `json:"args"`
			} `json:"pluginConfig"`
		} `json:"profiles"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(config.Profiles[0].PluginConfig[0].Args)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
