package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module writes a module with a command, and with a package that the command imports. The cache has
// neither the command nor the package.
func module(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module example.com/it\n\ngo 1.26\n",
		"main.go":    "package main\n\nimport \"example.com/it/part\"\n\nfunc main() { part.Do() }\n",
		"part/it.go": fmt.Sprintf("package part\n\n// At %v.\nfunc Do() { %s }\n", time.Now().UnixNano(), body),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBuilds(t *testing.T) {
	dir := module(t, "")
	args := []string{"-C", dir, "-o", filepath.Join(dir, "it"), "."}
	if total, left := count(t.Context(), args[:2], args[2:]); left != 2 || total <= left {
		t.Errorf("%d of %d packages are to be compiled, want 2 of more", left, total)
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, false, "[1/2] it", args); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "it")); err != nil {
		t.Error(err)
	}
	if out.Len() > 0 {
		t.Errorf("it says %q of a build that takes no time", out.String())
	}
	// The command still counts, because the go command reports a program as stale until "go
	// install" has installed it.
	if _, left := count(t.Context(), args[:2], args[2:]); left != 1 {
		t.Errorf("%d packages are left afterwards, want the command", left)
	}
}

func TestBuildFails(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, true, "it", []string{"-C", module(t, "nonsense()"), "."}); err == nil {
		t.Error("it does not fail")
	}
	if !strings.Contains(out.String(), "undefined: nonsense") {
		t.Errorf("it says %q, and not what is wrong", out.String())
	}
}

func TestBuildIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, &bytes.Buffer{}, true, "it", []string{"-C", module(t, ""), "."}); err == nil {
		t.Error("it goes on")
	}
}

// TestMeter checks the progress lines of a build that takes minutes.
func TestMeter(t *testing.T) {
	began := time.Unix(1000, 0)
	tests := map[string]struct {
		terminal bool
		steps    func(m *meter)
		want     string
	}{
		"before it is known how many there are": {
			steps: func(m *meter) { m.show(began.Add(time.Minute)) },
			want:  "it: 2 packages compiled, 1m0s\n",
		},
		"on a terminal, in place": {
			terminal: true,
			steps: func(m *meter) {
				m.total, m.before = 500, 100
				m.show(began.Add(4 * time.Second))
				m.hear("a/c")
				m.show(began.Add(65 * time.Second))
				m.end(began.Add(70 * time.Second))
			},
			want: "\r\x1b[Kit: 102 of 500 packages compiled, 4s\r\x1b[Kit: 103 of 500 packages compiled, 1m5s\r\x1b[Kit: 1m10s\n",
		},
		"an error, below what was drawn": {
			terminal: true,
			steps: func(m *meter) {
				m.show(began)
				m.hear("a/b/it.go:1:2: undefined: x")
			},
			want: "\r\x1b[Kit: 2 packages compiled, 0s\r\x1b[Ka/b/it.go:1:2: undefined: x\n",
		},
		"the command itself comes last": {
			steps: func(m *meter) {
				m.total, m.before = 500, 496
				m.hear("example.com/cmd/it")
				m.show(began.Add(2 * time.Minute))
				m.end(began.Add(130 * time.Second))
			},
			want: "it: all packages compiled, linking, 2m0s\nit: 2m10s\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			m := &meter{out: &out, terminal: tt.terminal, label: "it", target: "/cmd/it", began: began}
			m.hear("a/a")
			m.hear("a/b")
			tt.steps(m)
			if got := out.String(); got != tt.want {
				t.Errorf("it shows %q, want %q", got, tt.want)
			}
		})
	}
}
