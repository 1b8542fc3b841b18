package playgroundtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStaleHint checks that there is a hint only if a source file is newer than a binary.
func TestStaleHint(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, tt := range map[string]struct {
		names []string
		// files maps a file to the time of its last change, relative to the time of the build.
		files map[string]time.Duration
		want  string
	}{
		"nothing has changed":                {names: []string{"reprieve"}, files: map[string]time.Duration{"internal/a.go": -hour}},
		"a file has":                         {names: []string{"reprieve"}, files: map[string]time.Duration{"internal/a.go": -hour, "api/b.go": hour}, want: "api/b.go"},
		"a test has":                         {names: []string{"reprieve"}, files: map[string]time.Duration{"internal/a_test.go": hour}},
		"a file that no command has":         {names: []string{"reprieve"}, files: map[string]time.Duration{"docs/a.md": hour}},
		"a file, but only others' were used": {names: []string{"etcd"}, files: map[string]time.Duration{"internal/a.go": hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, built := t.TempDir(), time.Unix(1e9, 0)
			write(t, filepath.Join(root, "cmd", "reprieve", "main.go"), built.Add(-2*hour))
			for _, binary := range []string{"reprieve", "etcd"} {
				write(t, filepath.Join(root, "bin", binary), built)
			}
			for file, after := range tt.files {
				write(t, filepath.Join(root, file), built.Add(after))
			}
			got := staleHint(root, filepath.Join(root, "bin"), tt.names)
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the hint is %q, want one that names %q", got, tt.want)
			}
		})
	}
}

func write(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}
