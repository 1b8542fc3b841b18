package architecture

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/reprieve-dev/reprieve/"
	root   = "../.."
	// fence is the first line of the block in docs/architecture.md that lists the packages. Each
	// line of the block begins with a package. A package may import only the packages on the lines
	// above it.
	fence = "```rooms"
)

// TestImportsGoDownwards checks that the list has every package, and that each package imports only
// packages above it in the list.
func TestImportsGoDownwards(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	rooms := roomsOf(string(text))
	if len(rooms) == 0 {
		t.Fatalf("docs/architecture.md has no block %s", fence)
	}
	for _, fault := range faults(rooms, importsIn(t, "internal", "cmd")) {
		t.Error(fault)
	}
}

// TestDecidingIsPlainGo checks the packages that decide about evictions, and about the order of
// waiting work. They may import only the standard library and each other, so they can run without
// Kubernetes and without a clock. A simulation uses them that way.
func TestDecidingIsPlainGo(t *testing.T) {
	t.Parallel()
	plain := []string{"internal/workload", "internal/heap", "internal/core/fairshare", "internal/core/fragmentation", "internal/core", "internal/admission"}
	for _, pkg := range plain {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", pkg, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				first, _, _ := strings.Cut(name, "/")
				own, ours := strings.CutPrefix(name, module)
				if ours && !slices.Contains(plain, own) || !ours && strings.Contains(first, ".") {
					t.Errorf("%s imports %s", file, name)
				}
			}
		}
	}
}

// roomsOf returns the packages in the list, in the order of the list.
func roomsOf(text string) []string {
	var out []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch words := strings.Fields(line); {
		case !inside:
			inside = line == fence
		case line == "```":
			return out
		case len(words) > 0:
			out = append(out, words[0])
		}
	}
	return nil
}

// importsIn maps each package below the folders to the packages that it imports. It omits the
// standard library, other modules, and imports by tests. It reads the files itself instead of
// calling `go list`. So Go's test cache notices when a file changes.
func importsIn(t *testing.T, folders ...string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return err
			}
			pkg := filepath.ToSlash(rel)
			if _, ok := out[pkg]; !ok {
				out[pkg] = nil
			}
			for _, spec := range parsed.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				if name, ok := strings.CutPrefix(name, module); ok && slices.Contains(folders, strings.Split(name, "/")[0]) && !slices.Contains(out[pkg], name) {
					out[pkg] = append(out[pkg], name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// faults returns a description of each import that contradicts the list, and of each package that
// is missing in the list.
func faults(rooms []string, imports map[string][]string) []string {
	var out []string
	level := map[string]int{}
	for i, room := range rooms {
		if _, ok := imports[room]; !ok {
			out = append(out, fmt.Sprintf("the picture has %s, which does not exist", room))
		}
		if _, ok := level[room]; ok {
			out = append(out, fmt.Sprintf("the picture has %s twice", room))
		}
		level[room] = i
	}
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		if _, ok := level[pkg]; !ok {
			out = append(out, fmt.Sprintf("the picture lacks %s", pkg))
			continue
		}
		for _, name := range imports[pkg] {
			if at, ok := level[name]; ok && at >= level[pkg] {
				out = append(out, fmt.Sprintf("%s imports %s, which stands above it", pkg, name))
			}
		}
	}
	return out
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const text = "words\n```text\nother\n```\n\n```rooms\na   the lowest\n\nb/c the next\nd\n```\nmore\n"
	cases := map[string]struct {
		imports map[string][]string
		want    []string
	}{
		"as it should be":    {imports: map[string][]string{"a": nil, "b/c": {"a"}, "d": {"a", "b/c"}}},
		"upwards":            {imports: map[string][]string{"a": {"d"}, "b/c": nil, "d": nil}, want: []string{"a imports d, which stands above it"}},
		"missing":            {imports: map[string][]string{"a": nil, "b/c": nil, "d": {"e"}, "e": nil}, want: []string{"the picture lacks e"}},
		"no longer there":    {imports: map[string][]string{"a": nil, "b/c": nil}, want: []string{"the picture has d, which does not exist"}},
		"its parent is none": {imports: map[string][]string{"a": nil, "b": nil, "b/c": nil, "d": nil}, want: []string{"the picture lacks b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := faults(roomsOf(text), c.imports); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if got := faults([]string{"a", "a"}, map[string][]string{"a": nil}); len(got) != 1 {
		t.Errorf("A package that stands twice: %q", got)
	}
}

// TestNoFrameworksModule checks that go.mod requires no module of a framework such as JobSet,
// directly or indirectly. Reprieve reads the objects of frameworks without their Go types.
func TestNoFrameworksModule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if got := frameworksIn(string(text)); len(got) > 0 {
		t.Errorf("go.mod has %q", got)
	}
	const foreign = "require (\n\tk8s.io/api v0.37.1\n\tsigs.k8s.io/jobset v0.10.1\n\tgithub.com/kubeflow/trainer/v2 v2.0.0 // indirect\n)\n"
	if got := frameworksIn(foreign); len(got) != 2 {
		t.Errorf("of two frameworks in a go.mod, %q are found", got)
	}
}

// frameworksIn returns the required modules in a go.mod that belong to frameworks or to other
// schedulers.
func frameworksIn(text string) []string {
	known := []string{
		"sigs.k8s.io/kueue", "sigs.k8s.io/jobset", "sigs.k8s.io/lws", "sigs.k8s.io/scheduler-plugins", "volcano.sh/",
		"github.com/ray-project/kuberay", "github.com/kubeflow/", "github.com/kai-scheduler/", "github.com/NVIDIA/KAI-Scheduler", "github.com/koordinator-sh/",
	}
	var out []string
	for line := range strings.Lines(text) {
		for _, word := range strings.Fields(line) {
			if slices.ContainsFunc(known, func(module string) bool { return strings.HasPrefix(word, module) }) {
				out = append(out, word)
			}
		}
	}
	return out
}
