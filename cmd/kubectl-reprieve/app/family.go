package app

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// family is an object that PodGroups are derived for, such as a JobSet, with the intermediate
// objects that it owns. A JobSet owns Jobs, and the Jobs own the pods.
type family struct {
	rule *grouping.Rule
	// key is the namespace and name of the object. An empty namespace matches every namespace.
	key types.NamespacedName
	// between has the objects that the object owns, directly or through other objects. Pods are
	// left out.
	between sets.Set[relative]
}

// relative identifies an object by its kind, namespace and name.
type relative struct {
	schema.GroupKind
	types.NamespacedName
}

// familyOf returns the family of an object, from the objects in an inventory.
func familyOf(objects *inventory.Inventory, rule *grouping.Rule, key types.NamespacedName) (*family, error) {
	f := &family{rule: rule, key: key, between: sets.New[relative]()}
	// The kinds in Through are ordered from the object to its pods. So each owner is known before
	// the objects that it owns.
	for _, through := range rule.Through {
		resource := through.Kind.GroupVersion().WithResource(through.Resource)
		for _, object := range objects.Objects(inventory.RootName(resource)) {
			var of struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
			}
			if err := object.Into(&of); err != nil {
				return nil, fmt.Errorf("%s: %w", through.Resource, err)
			}
			if f.owns(object.Namespace, of.Metadata.OwnerReferences) {
				f.between.Insert(relative{through.Kind.GroupKind(), types.NamespacedName{Namespace: object.Namespace, Name: object.Name}})
			}
		}
	}
	return f, nil
}

// owns reports whether one of the owners is the object, or one of the objects in between. namespace
// is the namespace of the owners.
func (f *family) owns(namespace string, owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
		gv, err := schema.ParseGroupVersion(o.APIVersion)
		kind := gv.WithKind(o.Kind).GroupKind()
		if err == nil && kind == f.rule.Kind.GroupKind() && o.Name == f.key.Name && f.isIn(namespace) {
			return true
		}
		return err == nil && f.between.Has(relative{kind, types.NamespacedName{Namespace: namespace, Name: o.Name}})
	})
}

func (f *family) isIn(namespace string) bool {
	return f.key.Namespace == "" || f.key.Namespace == namespace
}

// has reports whether a pod belongs to the object.
func (f *family) has(pod *corev1.Pod) bool {
	label := f.rule.NameLabel
	return label != "" && pod.Labels[label] == f.key.Name && f.isIn(pod.Namespace) || f.owns(pod.Namespace, pod.OwnerReferences)
}

// storedAs returns the key of the object's kind in an inventory.
func (f *family) storedAs() string {
	return inventory.RootName(f.rule.Kind.GroupVersion().WithResource(f.rule.Resource))
}

// nameParts adds names to a set: the names of the object's pods, and the names of the PodGroups of
// these pods. Each name has the format of Victim in a happening.
func (f *family) nameParts(objects *inventory.Inventory, to sets.Set[string]) error {
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	for _, pod := range pods {
		if !f.has(pod) {
			continue
		}
		to.Insert("pod " + podKey(pod).String())
		if key, ok := gang.GroupOf(pod); ok {
			to.Insert("podgroup " + key.String())
		}
	}
	return err
}

// hadPod reports whether the name in a happening has the form that a Job of the family gives to its
// pods. The pod may no longer exist.
func (f *family) hadPod(name string) bool {
	for of := range f.between {
		if of.Kind == kindJob && isPodOf("pod "+of.NamespacedName.String(), name) {
			return true
		}
	}
	return false
}

// unread returns the reason why an inventory lacks objects of the object's kind. It returns "" if
// the inventory has all of them.
func (f *family) unread(objects *inventory.Inventory) string {
	name := f.storedAs()
	roots, _ := objects.Roots()
	for i := range roots {
		if inventory.RootName(roots[i].GroupVersionResource()) == name {
			return roots[i].Trouble
		}
	}
	return name + " are read only where the configuration makes groups for them (groups.kinds): give the scheduler's with --config, or ask about a pod or a PodGroup"
}
