package core

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("core.update", false, "write the golden files anew")

// TestGoldenJSON compares the JSON of decisions with golden files. Other programs read this JSON,
// so it must not change by accident.
func TestGoldenJSON(t *testing.T) {
	tests := map[string]struct {
		cluster   *build
		preemptor *Preemptor
	}{
		"fits": {clusterOf("gpu").node("a", 8), podOf(10, 8)},
		"preempts": {
			clusterOf("gpu").budget(0).node("a", 8).node("b", 8).node("c", 8).
				group("job", 1, 4, []string{"a", "b"}, startedAt(1000)).
				pod("a1", "a", 2, 4, startedAt(2000), withBudget(0)).pod("b1", "b", 3, 4).
				pod("c1", "c", 50, 8).pod("mate", "b", 1, 0, inPodGroup("uid-g")),
			gangOf(10, 2, members("w", 3, 0, 4)),
		},
		"infeasible": {
			clusterOf("gpu").node("a", 8).node("b", 8).pod("a1", "a", 1, 8).pod("b1", "b", 50, 1),
			gangOf(10, 2, members("w", 2, 0, 8)),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := mustDecide(t, tt.cluster.snapshot(), tt.preemptor, nil)
			got, err := json.MarshalIndent(d, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			file := filepath.Join("testdata", "decision", name+".json")
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("JSON of the decision (-want +got):\n%s", cmp.Diff(string(want), string(got)))
			}
			var back Decision
			if err := json.Unmarshal(got, &back); err != nil {
				t.Errorf("the JSON does not read back: %v", err)
			}
		})
	}
}
