package grouping

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Kind is a kind of object that a Resolver follows. The objects define groups, such as JobSets, or
// they are between pods and an object that defines groups, such as the Jobs of a JobSet.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural resource name of the kind.
	Resource string
	rule     *Rule
}

// Kinds returns the kinds to follow, sorted by kind and group. It is safe for concurrent use.
func (r *Resolver) Kinds() []Kind {
	out := make([]Kind, 0, len(r.kinds))
	for gk, k := range r.kinds {
		out = append(out, Kind{GroupVersionKind: k.GroupVersionKind, Resource: k.resource, rule: r.rules[gk]})
	}
	slices.SortFunc(out, func(a, b Kind) int { return strings.Compare(a.GroupKind().String(), b.GroupKind().String()) })
	return out
}

// Reduce returns an object of the kind with only the fields that grouping reads. These are its
// identity, owners and creation time, the annotations for users' choices, and the fields in the
// kind's rule. The specs of containers are removed.
func (k *Kind) Reduce(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: make(map[string]any)}
	out.SetGroupVersionKind(u.GroupVersionKind())
	out.SetNamespace(u.GetNamespace())
	out.SetName(u.GetName())
	out.SetUID(u.GetUID())
	out.SetCreationTimestamp(u.GetCreationTimestamp())
	out.SetResourceVersion(u.GetResourceVersion())
	out.SetOwnerReferences(u.GetOwnerReferences())
	annotations := u.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool { return !strings.HasPrefix(name, v1alpha1.GroupName+"/") })
	if len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	if queue := u.GetLabels()[v1alpha1.LabelQueue]; queue != "" {
		out.SetLabels(map[string]string{v1alpha1.LabelQueue: queue})
	}
	if k.rule != nil {
		k.rule.copyRead(out.Object, u.Object)
	}
	return out
}

// copyRead copies the fields that the rule reads.
func (r *Rule) copyRead(to, from map[string]any) {
	within := make(map[Path][]Path)
	read := func(list Path, paths ...Path) { within[list] = append(within[list], paths...) }
	read("", r.Suspend, r.Units, r.Queue, r.PriorityClass)
	for _, c := range r.InOrder {
		read("", c.Path)
	}
	for _, c := range r.WholeWhen {
		read("", c.Path)
	}
	for _, c := range r.EndsWhen {
		read("", c.Path)
	}
	if len(r.Ends) > 0 {
		read(conditions, "type", "status")
	}
	if r.InOrderItems != "" {
		read(r.InOrderItems, r.InOrderField)
	}
	for i := range r.Roles {
		role := &r.Roles[i]
		read("", role.Elastic, role.Where, role.Led.When, role.Led.Unless)
		for _, c := range role.AloneWhen {
			read("", c.Path)
		}
		for _, template := range role.Templates {
			read(role.Each, template, template+schedulerName)
		}
		read(role.Each, role.ItemLed.When, role.ItemLed.Unless)
		read(role.Each, role.NameAt, role.Off, role.Times, role.Replicas, role.AtLeast, role.AtMost, role.Minimum)
		read(role.Each, role.Done...)
	}
	for i := range r.Refused {
		if r.Refused[i].refuses(from) {
			r.Refused[i].Set.set(to, true)
		}
	}
	for list, paths := range within {
		if list == "" {
			copyPaths(to, from, paths)
		} else if v, ok := list.value(from); ok {
			list.set(to, reduceItems(v, paths))
		}
	}
}

// reduceItems returns a list or map whose items have only the fields at the paths.
func reduceItems(v any, paths []Path) any {
	reduced := func(item any) any {
		fields, ok := item.(map[string]any)
		if !ok {
			return plain(item)
		}
		out := make(map[string]any)
		copyPaths(out, fields, paths)
		return out
	}
	switch all := v.(type) {
	case []any:
		out := make([]any, len(all))
		for i, item := range all {
			out[i] = reduced(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(all))
		for name, item := range all {
			out[name] = reduced(item)
		}
		return out
	default:
		return plain(v)
	}
}

func copyPaths(to, from map[string]any, paths []Path) {
	for _, path := range paths {
		if v, ok := path.value(from); ok {
			path.set(to, plain(v))
		}
	}
}

// plain returns the part of a value that rules read. Of a list or an object, rules read only
// whether the value exists, so plain returns an empty list or object.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	default:
		return v
	}
}

// set sets the value at a path. It changes nothing if another path has already set a value at this
// path or at a parent of it.
func (p Path) set(to map[string]any, v any) {
	names := p.names()
	for _, name := range names[:len(names)-1] {
		below, ok := to[name].(map[string]any)
		if !ok {
			if _, taken := to[name]; taken {
				return
			}
			below = make(map[string]any)
			to[name] = below
		}
		to = below
	}
	last := names[len(names)-1]
	if before, taken := to[last].(map[string]any); taken && len(before) > 0 {
		return
	}
	to[last] = v
}

// SetTrouble sets the reason why the objects of a kind are unknown; an empty reason means that they
// are known. Verdicts on pods of such objects include the reason.
func (r *Resolver) SetTrouble(gk schema.GroupKind, trouble string) {
	if k, ok := r.kinds[gk]; ok {
		r.setTrouble(k, trouble)
	}
}

// NotServed returns the reason for SetTrouble if the API server does not serve the kind.
func (k *Kind) NotServed() string {
	return fmt.Sprintf("the API server does not serve %s of %s", k.Resource, k.GroupVersion())
}
