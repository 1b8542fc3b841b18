package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestSmallRows runs every workload on both sides with its smallest size.
func TestSmallRows(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	if _, err := exec.LookPath("etcd"); err != nil {
		bin, err := filepath.Abs("../../bin")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	// make perf sets these variables. scheduler_perf derives the paths of its files from them.
	t.Setenv("GOFLAGS", "-trimpath")
	t.Setenv("CGO_ENABLED", "0")
	out := t.TempDir()
	doc := filepath.Join(out, "doc.md")
	if err := os.WriteFile(doc, []byte(beginMark+"\n"+endMark+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"-size", sizeSmall, "-out", out, "-doc", doc}, &stdout, &stderr); err != nil {
		t.Fatalf("run: %v\n%s", err, stderr.String())
	}
	small, err := selectRows(rows(), sizeSmall, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range small {
		lines := linesOf(stdout.String(), small[i].titleAt(sizeSmall))
		want := 2
		if small[i].aim.calls > 0 {
			want++
		}
		if n := strings.Count(lines, "\n"); n != want {
			t.Errorf("%s has %d lines in the table, want %d:\n%s", small[i].name, n, want, stdout.String())
		}
		for _, word := range []string{"failed", "gave up"} {
			if strings.Contains(lines, word) {
				t.Errorf("%s: %s", small[i].name, lines)
			}
		}
	}
	if raw, err := os.ReadFile(doc); err != nil || strings.Contains(string(raw), "Reprieve") {
		t.Errorf("the figures of small workloads got into the document (error %v):\n%s", err, raw)
	}
}

// TestConfigIsTheDefault checks that the measured scheduler profile equals the default profile of
// reprieve-scheduler.
func TestConfigIsTheDefault(t *testing.T) {
	profile := func(file string) map[string]any {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var config struct{ Profiles []map[string]any }
		if err := yaml.Unmarshal(raw, &config); err != nil {
			t.Fatal(err)
		}
		if len(config.Profiles) != 1 {
			t.Fatalf("%s has %d profiles, want 1", file, len(config.Profiles))
		}
		delete(config.Profiles[0], "schedulerName")
		if plugins, ok := config.Profiles[0]["plugins"].(map[string]any); ok {
			// reprieve-scheduler adds its plugin for preEnqueue itself, so its default
			// configuration omits this extension point.
			delete(plugins, "preEnqueue")
		}
		return config.Profiles[0]
	}
	want := profile("../../cmd/reprieve-scheduler/app/default-config.yaml")
	if diff := cmp.Diff(want, profile("throughput/reprieve.yaml")); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
}

func TestSelectRows(t *testing.T) {
	tests := map[string]struct {
		size  string
		names []string

		want    []string
		wantErr string
	}{
		"all of a size": {
			size: sizeMedium,
			want: []string{"scheduling", "scheduling-occupied", "preemption-async", "preemption", "gangs", "queues-6", "gangs-queues-6", "gang-100"},
		},
		"some, in the order of the table": {
			size: sizeFull, names: []string{"gang-500", "scheduling"},
			want: []string{"scheduling", "gang-500"},
		},
		"one that the size lacks": {
			size: sizeSmall, names: []string{"gang-500"},
			wantErr: `no workload "gang-500" of size "small"`,
		},
		"no such size": {
			size:    "huge",
			wantErr: `no workloads of size "huge"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := selectRows(rows(), test.size, test.names)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want one with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range got {
				names = append(names, r.name)
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("selected rows (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOrder checks that the order of the sides alternates between the runs.
func TestOrder(t *testing.T) {
	b := &bench{binary: "throughput.test", size: sizeSmall, sides: []string{upstream, reprieve}}
	gangs, queues, gang := row{name: "gangs"}, row{name: "queues-6", unqueued: true}, row{name: "gang-100", aim: aim{calls: 2}}
	for want, tt := range map[string]struct {
		row *row
		n   int
	}{
		"upstream reprieve":       {&gangs, 1},
		"reprieve upstream":       {&gangs, 2},
		"unqueued reprieve":       {&queues, 3},
		"reprieve unqueued":       {&queues, 4},
		"upstream reprieve calls": {&gang, 5},
		"calls reprieve upstream": {&gang, 6},
	} {
		order := b.order(tt.row, tt.n)
		if got := strings.Join(order, " "); got != want {
			t.Errorf("run %d of %s has %s, want %s", tt.n, tt.row.name, got, want)
		}
		if got := strings.Join(b.command(t.Context(), tt.row, order[0], "out").Args, " "); !strings.Contains(got, "-sides="+order[0]+" ") {
			t.Errorf("%s does not run %s alone", got, order[0])
		}
	}
}
