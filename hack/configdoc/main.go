// Command configdoc writes docs/configuration.md from the types of api/config/v1alpha1. Each field
// has a section with its comment, its default and its example.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

//go:embed intro.md
var intro string

func main() {
	source := flag.String("source", "api/config/v1alpha1", "the folder with the types")
	out := flag.String("out", "docs/configuration.md", "the file to write")
	flag.Parse()
	if err := run(*source, *out); err != nil {
		fmt.Fprintln(os.Stderr, "configdoc:", err)
		os.Exit(1)
	}
}

func run(source, out string) error {
	types, err := structs(source)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(intro)
	w := &writer{types: types, out: &b}
	if err := w.fields("ReprieveArgs", nil); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}

// structs returns the struct types of the Go files in a folder by name, without tests.
func structs(folder string) (map[string]*ast.StructType, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("find the types: %w", err)
	}
	out := make(map[string]*ast.StructType)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("read the types: %w", err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					out[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return out, nil
}

type writer struct {
	types map[string]*ast.StructType
	out   *bytes.Buffer
}

// fields writes a section for each field of a type. For a field with a struct type, it also writes
// sections for the fields of that type.
func (w *writer) fields(typeName string, path []string) error {
	s, ok := w.types[typeName]
	if !ok {
		return fmt.Errorf("there is no type %s", typeName)
	}
	for _, field := range s.Fields.List {
		name := jsonName(field)
		if name == "" {
			continue
		}
		at := append(slices.Clone(path), name)
		doc, err := parseDoc(field.Doc.Text(), name)
		if err != nil {
			return fmt.Errorf("field %s: %w", strings.Join(at, "."), err)
		}
		kind := typeOf(field.Type)
		if _, nested := w.types[kind]; nested {
			fmt.Fprintf(w.out, "\n## %s\n\n%s\n", strings.Join(at, "."), wrap(doc.text, ""))
			if err := w.fields(kind, at); err != nil {
				return err
			}
			continue
		}
		if doc.standard == "" || doc.example == "" {
			return fmt.Errorf("field %s: its comment needs a line \"Default: …\" and a line \"Example: …\"", strings.Join(at, "."))
		}
		fmt.Fprintf(w.out, "\n### %s\n\n%s\n\n%s\n\n```yaml\n%s```\n", strings.Join(at, "."), wrap(doc.text, ""),
			wrap(fmt.Sprintf("A %s; by default %s.", kind, doc.standard), ""), nest(at, doc.example))
		if err := w.elements(field.Type, strings.Join(at, ".")); err != nil {
			return err
		}
	}
	return nil
}

// elements writes a list item for each field of the type of a list's elements.
func (w *writer) elements(e ast.Expr, of string) error {
	list, ok := e.(*ast.ArrayType)
	if !ok {
		return nil
	}
	s, ok := w.types[typeOf(list.Elt)]
	if !ok {
		return nil
	}
	fmt.Fprintf(w.out, "\nEach of `%s` has\n\n", of)
	for _, field := range s.Fields.List {
		doc, err := parseDoc(field.Doc.Text(), jsonName(field))
		if err != nil {
			return fmt.Errorf("field %s of %s: %w", jsonName(field), of, err)
		}
		fmt.Fprintf(w.out, "- %s\n", wrap(doc.text, "  "))
	}
	for _, field := range s.Fields.List {
		if err := w.elements(field.Type, of+"."+jsonName(field)); err != nil {
			return err
		}
	}
	return nil
}

// jsonName returns the name of a field in YAML, or "" for an inlined field.
func jsonName(field *ast.Field) string {
	if field.Tag == nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
	return name
}

// typeOf returns the name of a field's type, as shown on the page.
func typeOf(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return typeOf(t.X)
	case *ast.ArrayType:
		return "list of " + typeOf(t.Elt)
	case *ast.MapType:
		return "map of " + typeOf(t.Value)
	case *ast.SelectorExpr:
		return strings.ToLower(t.Sel.Name)
	case *ast.Ident:
		switch t.Name {
		case "bool":
			return "boolean"
		case "int32", "int64":
			return "number"
		default:
			return t.Name
		}
	default:
		return fmt.Sprintf("%T", e)
	}
}

// fieldDoc is the parsed comment of a field: its text, its default value and its example.
type fieldDoc struct{ text, standard, example string }

func parseDoc(comment, name string) (fieldDoc, error) {
	var d fieldDoc
	var text []string
	for _, paragraph := range strings.Split(strings.TrimSpace(comment), "\n\n") {
		line := strings.Join(strings.Fields(paragraph), " ")
		switch {
		case strings.HasPrefix(line, "Default: "):
			d.standard = "`" + strings.TrimPrefix(line, "Default: ") + "`"
		case strings.HasPrefix(line, "Example: "):
			d.example = strings.TrimPrefix(line, "Example: ")
		default:
			text = append(text, line)
		}
	}
	d.text = strings.Join(text, "\n\n")
	if !strings.HasPrefix(d.text, name+" ") {
		return d, errors.New("its comment does not start with its name")
	}
	d.text = "`" + name + "`" + strings.TrimPrefix(d.text, name)
	return d, nil
}

// lineLength is the greatest length of a line on the page, in characters. Examples and headings may
// be longer.
const lineLength = 100

// wrap breaks a text at spaces into lines of at most lineLength characters. Each line after the
// first begins with the indent.
func wrap(text, indent string) string {
	var b strings.Builder
	// The caller writes a list marker before the first line. The marker is as long as the indent.
	length := len(indent)
	for i, word := range strings.Split(text, " ") {
		switch {
		case i == 0:
		case length+1+len(word) > lineLength:
			b.WriteString("\n" + indent)
			length = len(indent)
		default:
			b.WriteString(" ")
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
}

// nest returns YAML that sets the field at a path to a value.
func nest(path []string, value string) string {
	var b strings.Builder
	for i, name := range path {
		b.WriteString(strings.Repeat("  ", i) + name + ":")
		if i == len(path)-1 {
			b.WriteString(" " + value)
		}
		b.WriteString("\n")
	}
	return b.String()
}
