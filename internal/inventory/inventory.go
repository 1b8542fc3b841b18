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
	// Raw is the object with its apiVersion and kind. It is never changed; another version of the object is another Object.
	Raw json.RawMessage
}

// Inventory is all that a decision depends on, as it was at one moment. An Inventory is not changed once it is made: [Inventory.With]
// and [Inventory.Without] make others, which share the objects. Any goroutine may read it.
type Inventory struct {
	// Taken is the moment at which the objects were as they are here. Decisions go by it.
	Taken time.Time
	// Configuration is the text of the scheduler's configuration; empty for the one that the scheduler has by default.
	Configuration string
	// Redacted is true where [Redact] has been at work.
	Redacted bool

	// native is the version of scheduling.k8s.io whose PodGroups were listed; empty where there are none.
	native string
	// roots are nil where none have been asked for.
	roots []Root
	// objects are by resource, as [NameOf] and [RootName] call it, and sorted by namespace and name.
	objects map[string][]Object
}

// New makes an empty Inventory of a moment.
func New(taken time.Time) *Inventory {
	return &Inventory{Taken: taken, objects: make(map[string][]Object)}
}

// Objects are those of a resource, as [NameOf] or [RootName] calls it, by namespace and name. They must not be changed.
func (in *Inventory) Objects(resource string) []Object { return in.objects[resource] }

// Find finds one object; namespace is empty for what has none.
func (in *Inventory) Find(resource, namespace, name string) (Object, bool) {
	list := in.objects[resource]
	i, found := slices.BinarySearchFunc(list, Object{Namespace: namespace, Name: name}, byName)
	if !found {
		return Object{}, false
	}
	return list[i], true
}

// Change is an object to put in the place of the one of that name, or beside those that there are.
type Change struct {
	// Resource is the object's, as [NameOf] or [RootName] calls it.
	Resource string
	Object   metav1.Object
}

// With is the Inventory with some objects put in, each in the place of the one that has its name, if any. The objects have
// to be typed, with apiVersion and kind set.
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

// Without is the Inventory with the objects of some UIDs left out of a resource.
func (in *Inventory) Without(resource string, gone map[types.UID]bool) *Inventory {
	out := in.clone()
	out.objects[resource] = slices.DeleteFunc(slices.Clone(out.objects[resource]), func(o Object) bool { return gone[o.UID] })
	return out
}

// At is the Inventory as if it had been taken at another moment.
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

// Decode reads the objects of a resource as values of a type.
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

// Into reads the object as a value of a type.
func (o *Object) Into(value any) error {
	if err := json.Unmarshal(o.Raw, value); err != nil {
		return fmt.Errorf("read %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

func byName(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
