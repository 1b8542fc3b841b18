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

// Object is one API object: its names, and its JSON as the API server writes it.
type Object struct {
	Namespace string
	Name      string
	UID       types.UID
	// Raw is the object with its apiVersion and kind. It is never changed; another version of the
	// object is another Object.
	Raw json.RawMessage
}

// Inventory holds the objects that a decision depends on, as of one moment. An Inventory is
// immutable: methods such as [Inventory.With] and [Inventory.Without] return another one, which
// shares the objects. Any goroutine may read it.
type Inventory struct {
	// Taken is the moment when the objects had this state. Decisions use it as the current time.
	Taken time.Time
	// Configuration is the text of the scheduler's configuration; empty for the default
	// configuration.
	Configuration string
	// Redacted is true if [Redact] made the Inventory, or if the snapshot file was redacted.
	Redacted bool

	// native is the version of scheduling.k8s.io whose PodGroups were listed; empty if the cluster
	// serves none.
	native string
	// roots is nil if no roots were requested.
	roots []Root
	// objects holds the objects by resource, named as by [NameOf] and [RootName]. Each list is
	// sorted by namespace and name.
	objects map[string][]Object
}

// New returns an empty Inventory of a moment.
func New(taken time.Time) *Inventory {
	return &Inventory{Taken: taken, objects: make(map[string][]Object)}
}

// Objects returns the objects of a resource, sorted by namespace and name. The resource is named as
// by [NameOf] or [RootName]. The caller must not change the slice.
func (in *Inventory) Objects(resource string) []Object { return in.objects[resource] }

// Find returns one object and whether it exists. The namespace is empty for cluster-scoped objects.
func (in *Inventory) Find(resource, namespace, name string) (Object, bool) {
	list := in.objects[resource]
	i, found := slices.BinarySearchFunc(list, Object{Namespace: namespace, Name: name}, byName)
	if !found {
		return Object{}, false
	}
	return list[i], true
}

// Change is an object to add to an Inventory. It replaces an object of the same resource, namespace
// and name.
type Change struct {
	// Resource is the object's resource, named as by [NameOf] or [RootName].
	Resource string
	Object   metav1.Object
}

// With returns the Inventory with some objects added or replaced. The objects must be typed, with
// apiVersion and kind set.
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

// Without returns the Inventory without the objects of a resource that have one of the UIDs.
func (in *Inventory) Without(resource string, gone map[types.UID]bool) *Inventory {
	out := in.clone()
	out.objects[resource] = slices.DeleteFunc(slices.Clone(out.objects[resource]), func(o Object) bool { return gone[o.UID] })
	return out
}

// At returns the Inventory as if it had been taken at another moment.
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

// Decode decodes all objects of a resource into values of type T.
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

// Into decodes the object into a value.
func (o *Object) Into(value any) error {
	if err := json.Unmarshal(o.Raw, value); err != nil {
		return fmt.Errorf("read %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

func byName(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
