package binarytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// sources returns the files of a module with a program. A subdirectory has a second module that the
// program imports.
func sources() map[string]string {
	return map[string]string{
		"go.mod": "module example.com/app\n\ngo 1.26.0\n\nrequire example.com/lib v1.2.3\n\nreplace example.com/lib => ./lib\n",
		// The program does not import fmt. So the build takes less time.
		"main.go":     "package main\n\nimport \"example.com/lib\"\n\nvar version = \"none\"\n\nfunc main() { println(lib.Name, version) }\n",
		"lib/go.mod":  "module example.com/lib\n\ngo 1.26.0\n",
		"lib/lib.go":  "package lib\n\nconst Name = \"lib\"\n",
		"lib/LICENSE": "Anybody may do with this as they like.\n",
	}
}

// Module writes the source code of the program to a temporary directory, and returns the directory.
func Module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range sources() {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Build builds the program for a platform and with a version. It returns the executable file.
func Build(t *testing.T, on product.Platform, version string) []byte {
	t.Helper()
	return BuildIn(t, Module(t), on, version)
}

// BuildIn builds the program of the module in dir, for a platform and with a version. It returns
// the executable file.
func BuildIn(t *testing.T, dir string, on product.Platform, version string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "app")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", out,
		"-ldflags", "-s -w -X main.version=v1.37.1"+binary.Stamp(version), ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOOS="+on.OS, "GOARCH="+on.Arch, "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build for %s: %v\n%s", on, err, output)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
