package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// Error is an error in a submitted file.
type Error struct {
	// File is the name of the file. Line is the line where the faulty document begins.
	File string
	Line int
	// Reason describes the error.
	Reason string
}

// Error returns the file, the line and the reason, in one line of text.
func (e *Error) Error() string {
	return fmt.Sprintf("%s, line %d: %s", e.File, e.Line, strings.Join(strings.Fields(e.Reason), " "))
}

// Document is one object of a file.
type Document struct {
	// File is the name of the file. Line is the line where the document begins.
	File string
	Line int
	// Object is a typed object, such as a *corev1.Pod, if Read registers the kind. Otherwise it is
	// unstructured.
	Object runtime.Object
	// Meta is the object's metadata.
	Meta metav1.Object
	// Kind is the object's kind.
	Kind string
}

func (d *Document) fault(format string, args ...any) error {
	return &Error{File: d.File, Line: d.Line, Reason: fmt.Sprintf("%s %q: ", d.Kind, d.Meta.GetName()) + fmt.Sprintf(format, args...)}
}

// Read reads the objects of a YAML or JSON file, in their order. It replaces a List by its items.
// It returns an [*Error] for a document that is invalid, including unknown fields and wrong types.
func Read(name string, from io.Reader) ([]Document, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, batchv1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, schedulingv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	reader := utilyaml.NewYAMLReader(bufio.NewReader(from))
	var out []Document
	for line := 1; ; {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		at := line + leading(text)
		// The text lacks the separator line, so add 1.
		line += bytes.Count(text, []byte("\n")) + 1
		documents, err := decode(strict, text, name, at)
		if err != nil {
			return nil, err
		}
		out = append(out, documents...)
	}
	if len(out) == 0 {
		return nil, &Error{File: name, Line: 1, Reason: "there is nothing in it"}
	}
	return out, nil
}

// leading returns the number of lines before the first line with content. It is 0 if there is no
// content.
func leading(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && trimmed[0] != '#' && !bytes.HasPrefix(trimmed, []byte("---")) {
			return n
		}
		n++
	}
	return 0
}

// decode decodes one document. It returns no objects for an empty document, and several for a List.
func decode(strict runtime.Decoder, text []byte, name string, line int) ([]Document, error) {
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return nil, &Error{File: name, Line: line, Reason: "it is no YAML: " + err.Error()}
	}
	if len(object) == 0 {
		return nil, nil
	}
	u := &unstructured.Unstructured{Object: object}
	if u.GetAPIVersion() == "" || u.GetKind() == "" {
		return nil, &Error{File: name, Line: line, Reason: "it does not say what it is; begin with apiVersion and kind"}
	}
	if u.IsList() && u.GetKind() == "List" {
		return decodeList(strict, u, name, line)
	}
	doc := Document{File: name, Line: line, Kind: u.GetKind()}
	typed, _, err := strict.Decode(text, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		doc.Object, doc.Meta = u, u
	case err != nil:
		return nil, &Error{File: name, Line: line, Reason: fmt.Sprintf("%s %q: %v", u.GetKind(), u.GetName(), err)}
	default:
		meta, ok := typed.(metav1.Object)
		if !ok {
			return nil, &Error{File: name, Line: line, Reason: fmt.Sprintf("a %s cannot be submitted", u.GetKind())}
		}
		typed.GetObjectKind().SetGroupVersionKind(u.GroupVersionKind())
		doc.Object, doc.Meta = typed, meta
	}
	if doc.Meta.GetName() == "" {
		if doc.Meta.GetGenerateName() == "" {
			return nil, &Error{File: name, Line: line, Reason: u.GetKind() + ": metadata.name is missing"}
		}
		doc.Meta.SetName(doc.Meta.GetGenerateName() + "plan")
	}
	if u.GroupVersionKind().Group == native.Group && u.GetKind() == "PodGroup" {
		doc.Object, doc.Meta = u, u
	}
	return []Document{doc}, nil
}

func decodeList(strict runtime.Decoder, list *unstructured.Unstructured, name string, line int) ([]Document, error) {
	var out []Document
	err := list.EachListItem(func(item runtime.Object) error {
		u, ok := item.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		text, err := u.MarshalJSON()
		if err != nil {
			return &Error{File: name, Line: line, Reason: err.Error()}
		}
		documents, err := decode(strict, text, name, line)
		out = append(out, documents...)
		return err
	})
	return out, err
}
