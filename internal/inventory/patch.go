package inventory

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Trim makes an Object of an object from the API server and drops the fields that no decision
// depends on. With [Redacted], it also drops the fields that [Redact] drops, and keeps the given
// annotations. It changes the map.
func Trim(resource string, object map[string]any, redaction Redaction, annotations ...string) (Object, error) {
	if redaction == Redacted {
		redact(resource, object, annotations)
	}
	return trimmed(resource, object)
}

// Redaction is the amount of data that objects keep.
type Redaction string

const (
	// Full keeps all fields except the fields that [Trim] always drops.
	Full Redaction = "full"
	// Redacted drops data about people, as [Redact] does.
	Redacted Redaction = "redacted"
)

// Parse makes an Object of its JSON.
func Parse(raw json.RawMessage) (Object, error) { return named(raw) }

// KindOf returns the kind of a resource, named as by [NameOf]. It returns false if no decision
// depends on the resource.
func KindOf(resource string) (schema.GroupVersionKind, bool) {
	for _, kind := range Kinds() {
		if NameOf(kind.GroupVersionResource) == resource {
			return kind.GroupVersionKind(), true
		}
	}
	return schema.GroupVersionKind{}, false
}

// WithNative returns the Inventory with another version for the PodGroups of scheduling.k8s.io;
// empty if the cluster serves none.
func (in *Inventory) WithNative(version string) *Inventory {
	out := in.clone()
	out.native = version
	return out
}

// Patched returns the Inventory with the objects in set added to a resource and the objects in gone
// removed. An object in set replaces an object of the same name.
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
