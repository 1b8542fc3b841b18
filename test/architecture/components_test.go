package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// mostMethods is the maximum number of methods of the Scheduler. Lower it when you remove one.
	mostMethods = 40
	// mostCallbacks is the maximum number of fields of function type in the components. Such a
	// field can bypass the order of the components.
	mostCallbacks = 1
	// mostLines is the maximum number of lines of internal/scheduler without its tests. Lower it
	// when code moves to a package of its own.
	mostLines = 8849
)

// TestComponents checks the components of internal/scheduler. The package does not grow. The
// Scheduler has few methods. Only the plugins hold it. A component holds only components that connect creates before it.
func TestComponents(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "internal", "scheduler", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	w := wiringOf(t, texts)
	lines := 0
	for _, text := range texts {
		lines += strings.Count(text, "\n")
	}
	if lines > mostLines {
		t.Errorf("internal/scheduler has %d lines, and may have %d", lines, mostLines)
	}
	if len(w.order) < 15 {
		t.Errorf("%d components are created, which is too few: has connect moved?", len(w.order))
	}
	for _, fault := range w.faults([]string{"Gate", "Plugin"}, mostMethods, mostCallbacks) {
		t.Error(fault)
	}
}

// TestComponentFaults checks which wirings TestComponents rejects.
func TestComponentFaults(t *testing.T) {
	t.Parallel()
	const sound = `package scheduler
type Scheduler struct { low *lower; high *upper }
type lower struct { apply func() }
type upper struct { low *lower }
type Plugin struct { sched *Scheduler }
func (h *Scheduler) run() {}
func connect(h *Scheduler) { connectLow(h); h.high = &upper{low: h.low} }
func connectLow(h *Scheduler) { h.low = &lower{apply: h.run} }
`
	tests := map[string]struct {
		old, new string
		want     []string
	}{
		"sound": {},
		"a method more": {
			"func (h *Scheduler) run() {}", "func (h *Scheduler) run() {}\nfunc (h *Scheduler) tick() {}",
			[]string{"Scheduler has 2 methods, and may have 1"},
		},
		"a component that holds the Scheduler": {
			"type upper struct { low *lower }", "type upper struct { low *lower; sched *Scheduler }",
			[]string{"upper holds the Scheduler"},
		},
		"an embedded Scheduler": {
			"type upper struct { low *lower }", "type upper struct { low *lower; *Scheduler }",
			[]string{"upper embeds Scheduler", "upper holds the Scheduler"},
		},
		"an embedded component": {
			"type upper struct { low *lower }", "type upper struct { *lower }",
			[]string{"upper embeds lower"},
		},
		"a component that holds a later one": {
			"type lower struct { apply func() }", "type lower struct { apply func(); high *upper }",
			[]string{"lower holds upper, which is created later"},
		},
		"a component that holds itself": {
			"type lower struct { apply func() }", "type lower struct { apply func(); low *lower }",
			[]string{"lower holds lower, which is created later"},
		},
		"a second callback": {
			"type lower struct { apply func() }", "type lower struct { apply func(); undo func() }",
			[]string{"the components have 2 fields with functions, and may have 1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wiringOf(t, []string{strings.Replace(sound, tt.old, tt.new, 1)})
			if got := w.faults([]string{"Plugin"}, 1, 1); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// wiring describes the types of a package and the components that its function connect creates.
type wiring struct {
	// methods is the number of the Scheduler's methods.
	methods int
	structs map[string]*ast.StructType
	// order holds the names of the components' types, in the order of their creation.
	order []string
}

// wiringOf reads a package from the text of its files. connect creates components by assignments of
// composite literals, itself or in the functions that it calls.
func wiringOf(t *testing.T, texts []string) wiring {
	t.Helper()
	w := wiring{structs: make(map[string]*ast.StructType)}
	functions := make(map[string]*ast.FuncDecl)
	for _, text := range texts {
		file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				switch {
				case d.Recv == nil:
					functions[d.Name.Name] = d
				case pointee(d.Recv.List[0].Type) == "Scheduler":
					w.methods++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if named, ok := spec.(*ast.TypeSpec); ok {
						if s, ok := named.Type.(*ast.StructType); ok {
							w.structs[named.Name.Name] = s
						}
					}
				}
			}
		}
	}
	w.create(functions, "connect")
	return w
}

// create appends the components that a function creates.
func (w *wiring) create(functions map[string]*ast.FuncDecl, name string) {
	f := functions[name]
	if f == nil {
		return
	}
	for _, statement := range f.Body.List {
		switch s := statement.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok {
				if called, ok := call.Fun.(*ast.Ident); ok {
					w.create(functions, called.Name)
				}
			}
		case *ast.AssignStmt:
			if made, ok := s.Rhs[0].(*ast.UnaryExpr); ok {
				if literal, ok := made.X.(*ast.CompositeLit); ok {
					if of, ok := literal.Type.(*ast.Ident); ok {
						w.order = append(w.order, of.Name)
					}
				}
			}
		}
	}
}

// faults returns a sentence about each fault of the components. Only the types in holders may hold
// the Scheduler.
func (w *wiring) faults(holders []string, mostMethods, mostCallbacks int) []string {
	var out []string
	if w.methods > mostMethods {
		out = append(out, fmt.Sprintf("Scheduler has %d methods, and may have %d", w.methods, mostMethods))
	}
	callbacks := 0
	for name, s := range w.structs {
		at := slices.Index(w.order, name)
		for _, field := range s.Fields.List {
			of := pointee(field.Type)
			later := slices.Index(w.order, of)
			if len(field.Names) == 0 && (later >= 0 || of == "Scheduler") {
				out = append(out, fmt.Sprintf("%s embeds %s", name, of))
			}
			if of == "Scheduler" && !slices.Contains(holders, name) {
				out = append(out, name+" holds the Scheduler")
			}
			if at >= 0 && later >= at {
				out = append(out, fmt.Sprintf("%s holds %s, which is created later", name, of))
			}
			if _, isFunc := field.Type.(*ast.FuncType); isFunc && at >= 0 {
				callbacks++
			}
		}
	}
	if callbacks > mostCallbacks {
		out = append(out, fmt.Sprintf("the components have %d fields with functions, and may have %d", callbacks, mostCallbacks))
	}
	slices.Sort(out)
	return out
}

// pointee returns the name of the type that a pointer to a type of the same package points to; ""
// for any other type.
func pointee(expr ast.Expr) string {
	star, ok := expr.(*ast.StarExpr)
	if !ok {
		return ""
	}
	id, ok := star.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name
}
