package playground

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
)

// lateMapper simulates discovery that lists a kind only after a number of resets (want).
type lateMapper struct {
	meta.RESTMapper

	resets, want int
}

func (m *lateMapper) Reset() { m.resets++ }

func (m *lateMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.resets < m.want {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{}, nil
}

func TestWaitServed(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": crdGroup + "/v1", "kind": crdKind, "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "names": map[string]any{"kind": "Widget"},
			"versions": []any{map[string]any{"name": "v1", "served": true}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	}}
	mapper := &lateMapper{want: 3}
	if err := waitServed(t.Context(), dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), crd), mapper, crd); err != nil {
		t.Fatal(err)
	}
	if mapper.resets != mapper.want {
		t.Errorf("discovery was asked %d times, and lists the kind from the time %d on", mapper.resets, mapper.want)
	}
}
