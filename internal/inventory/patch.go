package inventory

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Trim makes an Object of one that the API server has, without what no decision depends on, and redacted as [Redact] does where
// that is asked for, with the same annotations. It changes the map.
func Trim(resource string, object map[string]any, redaction Redaction, annotations ...string) (Object, error) {
	if redaction == Redacted {
		redact(resource, object, annotations)
	}
	return trimmed(resource, object)
}

// Redaction says how much of objects is kept.
type Redaction string

const (
	// Full keeps all that decisions may depend on, and what stands beside it.
	Full Redaction = "full"
	// Redacted leaves out what may tell of people, as [Redact] does.
	Redacted Redaction = "redacted"
)

// Parse makes an Object of its JSON.
func Parse(raw json.RawMessage) (Object, error) { return named(raw) }

// KindOf finds the kind of a resource, as [NameOf] calls it; false where no decision depends on the resource.
func KindOf(resource string) (schema.GroupVersionKind, bool) {
	for _, kind := range Kinds() {
		if NameOf(kind.GroupVersionResource) == resource {
			return kind.GroupVersionKind(), true
		}
	}
	return schema.GroupVersionKind{}, false
}

// WithNative is the Inventory with PodGroups of a version of scheduling.k8s.io; of none where the version is empty.
func (in *Inventory) WithNative(version string) *Inventory {
	out := in.clone()
	out.native = version
	return out
}

// Patched is the Inventory with some objects of a resource put in, each in the place of the one that has its name, and others
// left out.
func (in *Inventory) Patched(resource string, set []Object, gone []types.NamespacedName) *Inventory {
	if len(set)+len(gone) == 0 {
		return in
	}
	touched := make(map[types.NamespacedName]bool, len(set)+len(gone))
	for i := range set {
		touched[types.NamespacedName{Namespace: set[i].Namespace, Name: set[i].Name}] = true
	}
	for _, key := range gone {
		touched[key] = true
	}
	out := in.clone()
	list := slices.DeleteFunc(slices.Clone(out.objects[resource]), func(o Object) bool {
		return touched[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]
	})
	list = append(list, set...)
	slices.SortFunc(list, byName)
	out.objects[resource] = list
	return out
}
