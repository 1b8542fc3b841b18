package licenses

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
	"github.com/reprieve-dev/reprieve/hack/release/internal/binary/binarytest"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// moduleWith creates a directory with the files and returns its path.
func moduleWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBook(t *testing.T) {
	t.Parallel()
	apache, err := os.ReadFile("../../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	book := NewBook()
	for _, m := range []struct {
		name  string
		files map[string]string
	}{
		{"b@v1.0.0", map[string]string{"LICENSE": string(apache), "NOTICE.txt": "By many.", "licence.go": "package b", "README.md": "It is free."}},
		{"a@v1.0.0", map[string]string{"COPYING": string(apache) + "\r\n"}},
		{"c@v1.0.0", map[string]string{"License.md": "Do as you like.\n"}},
	} {
		if err := book.Add(m.name, moduleWith(t, m.files)); err != nil {
			t.Fatal(err)
		}
	}
	line := strings.Repeat("=", 80)
	want := "The modules that are linked into this program, and their licences.\n" +
		"\n" + line + "\na@v1.0.0\nb@v1.0.0\n" + line + "\n\n" + strings.TrimSpace(string(apache)) + "\n" +
		"\n" + line + "\nb@v1.0.0\n" + line + "\n\nBy many.\n" +
		"\n" + line + "\nc@v1.0.0\n" + line + "\n\nDo as you like.\n"
	if diff := cmp.Diff(want, string(book.Text())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	names := map[string][]string{"a@v1.0.0": {"Apache-2.0"}, "b@v1.0.0": {"Apache-2.0"}, "c@v1.0.0": {}}
	if diff := cmp.Diff(names, book.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// TestWithout checks that a module without a licence is an error. A release must not contain such a
// module.
func TestWithout(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"nothing":  {"README.md": "It is free."},
		"an empty": {"LICENSE": "\n"},
		"a notice": {"NOTICE": "By many."},
	} {
		if err := NewBook().Add("a@v1.0.0", moduleWith(t, files)); err == nil || !strings.HasPrefix(err.Error(), "a@v1.0.0 has no licence") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAddProgram(t *testing.T) {
	t.Parallel()
	dir := binarytest.Module(t)
	program, err := binary.Read(binarytest.BuildIn(t, dir, product.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, "v0.2.0"))
	if err != nil {
		t.Fatal(err)
	}
	book := NewBook()
	for range 2 {
		if err := book.AddProgram(t.Context(), dir, program); err != nil {
			t.Fatal(err)
		}
		if err := book.AddToolchain(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	text := string(book.Text())
	for _, want := range []string{"./lib@", "Anybody may do with this", "Redistribution and use in source and binary forms"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q stands there %d times, want once", want, strings.Count(text, want))
		}
	}
	if got := book.Names()["Go"]; !cmp.Equal(got, []string{"BSD-3-Clause"}) {
		t.Errorf("Go's licence is %v", got)
	}
	// The program has another version of the module than go.mod, as if go.mod had changed after the
	// build.
	program.Modules[0].Version = "v1.2.4"
	if err := NewBook().AddProgram(t.Context(), dir, program); err == nil || !strings.Contains(err.Error(), "./lib@v1.2.4 is not among the modules") {
		t.Errorf("got %v", err)
	}
}
