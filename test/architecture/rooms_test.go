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
	// fence begins the block of docs/architecture.md that lists the packages, one on each line, the
	// lowest first. The first word of a line is the package; the rest is for readers.
	fence = "```rooms"
)

// TestImportsGoDownwards checks that the list has every package, and that no package imports one
// further down the list.
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

// TestDecidingIsPlainGo checks the packages that decide about evictions, waits and turns. They
// import only the standard library and each other. So they run without Kubernetes and without a
// clock, for example in a simulation.
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

// roomsOf returns the packages of the list, in its order.
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

// importsIn returns the packages below some folders. For each it lists the imported ones among
// them, without the imports of tests. It reads the files itself instead of calling `go list`, so
// that the go command knows when the test must run again.
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

// faults describes the differences between the imports and the list.
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

// TestNoFrameworksModule checks that the product depends on no framework's module, directly or
// indirectly. Reprieve reads the frameworks' objects in the form in which the API server serves
// them.
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

// frameworksIn returns the modules of a go.mod that belong to frameworks or other schedulers.
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
