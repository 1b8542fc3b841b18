package inventory

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Trim converts an object from the API server to an Object, without the fields that no decision
// depends on. With [Redacted], it also drops the fields that [Redact] drops, except the given
// annotations. It changes the map object.
func Trim(resource string, object map[string]any, redaction Redaction, annotations ...string) (Object, error) {
	if redaction == Redacted {
		redact(resource, object, annotations)
	}
	return trimmed(resource, object)
}

// Redaction selects the fields that objects keep.
type Redaction string

const (
	// Full keeps all fields except the fields that [Trim] always drops.
	Full Redaction = "full"
	// Redacted also drops data about users, as [Redact] does.
	Redacted Redaction = "redacted"
)

// Parse returns the Object for the JSON of an API object.
func Parse(raw json.RawMessage) (Object, error) { return named(raw) }

// KindOf returns the kind of a resource. resource is a name that [NameOf] returns. KindOf returns
// false if decisions do not depend on the resource.
func KindOf(resource string) (schema.GroupVersionKind, bool) {
	for _, kind := range Kinds() {
		if NameOf(kind.GroupVersionResource) == resource {
			return kind.GroupVersionKind(), true
		}
	}
	return schema.GroupVersionKind{}, false
}

// WithNative returns a copy of the Inventory with another version of scheduling.k8s.io for its
// PodGroups. An empty version means that the cluster does not serve them.
func (in *Inventory) WithNative(version string) *Inventory {
	out := in.clone()
	out.native = version
	return out
}

// Patched returns a copy of the Inventory with objects of one resource added (set) and removed
// (gone). An added object replaces an object of the same namespace and name.
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
