package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is one API object: its identity, and its JSON as the API server writes it.
type Object struct {
	Namespace string
	Name      string
	UID       types.UID
	// Raw is the object's JSON, with apiVersion and kind. It must not be changed: several
	// Inventories may share it.
	Raw json.RawMessage
}

// Inventory holds the objects that a decision depends on, as of one moment. An Inventory is
// immutable. Methods such as [Inventory.With] return a changed copy, which shares unchanged
// objects. It is safe for concurrent use.
type Inventory struct {
	// Taken is the moment when the objects were listed. Decisions use it as the current time.
	Taken time.Time
	// Configuration is the text of the scheduler's configuration file. It is empty for the default
	// configuration.
	Configuration string
	// Redacted is true if [Redact] made the Inventory, or if the snapshot file was redacted.
	Redacted bool

	// native is the API version of the listed PodGroups of scheduling.k8s.io. It is empty if the
	// cluster does not serve them.
	native string
	// roots lists the kinds of root objects. It is nil if no kinds were requested.
	roots []Root
	// objects maps a resource to its objects, sorted by namespace and name. The keys are the names
	// that [NameOf] and [RootName] return.
	objects map[string][]Object
}

// New returns an empty Inventory that was taken at the given moment.
func New(taken time.Time) *Inventory {
	return &Inventory{Taken: taken, objects: make(map[string][]Object)}
}

// Objects returns the objects of a resource, sorted by namespace and name. resource is a name that
// [NameOf] or [RootName] returns. The caller must not change the slice.
func (in *Inventory) Objects(resource string) []Object { return in.objects[resource] }

// Find returns the object with the name, and whether it exists. The namespace is empty for
// cluster-scoped objects.
func (in *Inventory) Find(resource, namespace, name string) (Object, bool) {
	list := in.objects[resource]
	i, found := slices.BinarySearchFunc(list, Object{Namespace: namespace, Name: name}, byName)
	if !found {
		return Object{}, false
	}
	return list[i], true
}

// Change is an object to add to an Inventory. The object replaces an object of the same resource,
// namespace and name.
type Change struct {
	// Resource is the name that [NameOf] or [RootName] returns for the object's resource.
	Resource string
	Object   metav1.Object
}

// With returns a copy of the Inventory with objects added or replaced. The objects must be of Go
// types such as *corev1.Pod, with apiVersion and kind set.
func (in *Inventory) With(changes ...Change) (*Inventory, error) {
	out := in.clone()
	touched := make(map[string]map[types.NamespacedName]Object)
	for _, c := range changes {
		raw, err := json.Marshal(c.Object)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s/%s: %w", c.Resource, c.Object.GetNamespace(), c.Object.GetName(), err)
		}
		if touched[c.Resource] == nil {
			touched[c.Resource] = make(map[types.NamespacedName]Object)
		}
		key := types.NamespacedName{Namespace: c.Object.GetNamespace(), Name: c.Object.GetName()}
		touched[c.Resource][key] = Object{Namespace: key.Namespace, Name: key.Name, UID: c.Object.GetUID(), Raw: raw}
	}
	for resource, objects := range touched {
		list := slices.DeleteFunc(slices.Clone(out.objects[resource]), func(o Object) bool {
			_, replaced := objects[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]
			return replaced
		})
		for _, o := range objects {
			list = append(list, o)
		}
		slices.SortFunc(list, byName)
		out.objects[resource] = list
	}
	return out, nil
}

// Without returns a copy of the Inventory that lacks the objects of the resource with the given
// UIDs.
func (in *Inventory) Without(resource string, gone map[types.UID]bool) *Inventory {
	out := in.clone()
	out.objects[resource] = slices.DeleteFunc(slices.Clone(out.objects[resource]), func(o Object) bool { return gone[o.UID] })
	return out
}

// At returns a copy of the Inventory whose time is moment.
func (in *Inventory) At(moment time.Time) *Inventory {
	out := in.clone()
	out.Taken = moment
	return out
}

func (in *Inventory) clone() *Inventory {
	out := *in
	out.objects = make(map[string][]Object, len(in.objects))
	for resource, list := range in.objects {
		out.objects[resource] = list
	}
	return &out
}

// Decode decodes all objects of a resource into values of type T, in the order of
// [Inventory.Objects].
func Decode[T any](in *Inventory, resource string) ([]T, error) {
	list := in.objects[resource]
	out := make([]T, len(list))
	for i := range list {
		if err := list[i].Into(&out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Into decodes the object's JSON into value, which is a pointer.
func (o *Object) Into(value any) error {
	if err := json.Unmarshal(o.Raw, value); err != nil {
		return fmt.Errorf("read %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

func byName(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
