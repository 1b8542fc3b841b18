package whatif_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// documentedConfiguration returns the complete configuration file that docs/configuration.md shows
// first.
func documentedConfiguration(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	text, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/configuration.md has no YAML")
	}
	return text
}

// TestGuardsOfAllProfiles checks which profiles a protection lists: the profiles whose preemptors
// it applies to, or none if it applies to all.
func TestGuardsOfAllProfiles(t *testing.T) {
	t.Parallel()
	const (
		static   = "mirror StaticPod, no end, of all"
		tolerate = "patient PreemptionToleration, 1h55m0s, of "
		runtime  = "patient PreemptMinRuntime, 5m0s, of all"
		foreign  = "foreign PreemptMinRuntime, 5m0s, of reprieve-batch"
		plain    = "  - schedulerName: plain\n    plugins:\n      queueSort:\n        enabled: [{name: ReprievePrioritySort}]\n        disabled: [{name: PrioritySort}]\n"
	)
	for name, c := range map[string]struct {
		// change edits the text of the documented configuration.
		change func(text string) string
		// want lists the protections, sorted by their end: unit, rule, remaining time and profiles.
		want []string
	}{
		"the documented file": {
			change: func(text string) string { return text },
			want:   []string{foreign, runtime, tolerate + "reprieve-scheduler", static},
		},
		"two profiles that agree on tolerations": {
			change: func(text string) string {
				return strings.Replace(text, "preemptionToleration: false", "preemptionToleration: true", 1)
			},
			want: []string{foreign, runtime, tolerate + "all", static},
		},
		"two profiles that agree on nothing": {
			change: func(text string) string {
				return strings.Replace(text, "        args:\n          groups:", "        args:\n          preemptMinRuntime: 6m\n          groups:", 1)
			},
			want: []string{"foreign PreemptMinRuntime, 1m0s, of reprieve-scheduler", foreign, runtime, tolerate + "reprieve-scheduler", static},
		},
		"a profile without the plugin": {
			change: func(text string) string { return text + plain },
			want: []string{
				foreign, "patient PreemptMinRuntime, 5m0s, of reprieve-batch and reprieve-scheduler", tolerate + "reprieve-scheduler",
				"mirror StaticPod, no end, of reprieve-batch and reprieve-scheduler",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(c.change(documentedConfiguration(t))), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := schedulerapp.LoadRecordedConfig(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			s := newScene(noon)
			s.node("node-a", 8)
			// Both pods have run for five minutes. The profile of the first pod has a default
			// min-runtime of ten minutes. The second pod belongs to no profile.
			patient := s.running("patient", "", "node-a", 1, 100, 5*time.Minute)
			patient.Spec.PriorityClassName, patient.Spec.SchedulerName = "tolerant", "reprieve-batch"
			s.running("foreign", "", "node-a", 1, 100, 5*time.Minute).Spec.SchedulerName = "another"
			s.running("mirror", "", "node-a", 1, 100, time.Hour).Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			cluster, err := whatif.New(t.Context(), s.inventory(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			guards, err := cluster.Guards()
			if err != nil {
				t.Fatal(err)
			}
			got := make([]string, len(guards))
			for i := range guards {
				got[i] = inWords(&guards[i])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("protected are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// inWords returns a protection in the form of want.
func inWords(g *whatif.Guard) string {
	until, of := "no end", "all"
	if !g.Until.IsZero() {
		until = g.Until.Sub(noon).Round(time.Second).String()
	}
	if g.Profiles != nil {
		of = strings.Join(g.Profiles, " and ")
	}
	return fmt.Sprintf("%s %s, %s, of %s", g.Name, g.Rule, until, of)
}
