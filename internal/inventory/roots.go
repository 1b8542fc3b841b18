package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Root is a kind of objects that tell which pods belong together, such as Jobs. The scheduler's
// configuration determines these kinds.
type Root struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	// Trouble is the reason why the Inventory lacks the objects of the kind; "" if it has all.
	Trouble string `json:"trouble,omitempty"`
	// Forbidden is true if the caller lacked the right to list the objects.
	Forbidden bool `json:"forbidden,omitempty"`
	// Reduce drops the fields of an object that grouping does not need. Only [List] and
	// [ListNamespace] call it.
	Reduce func(*unstructured.Unstructured) *unstructured.Unstructured `json:"-"`
}

// GroupVersionResource returns the resource of the kind in the API.
func (r *Root) GroupVersionResource() schema.GroupVersionResource {
	gv, _ := schema.ParseGroupVersion(r.APIVersion)
	return gv.WithResource(r.Resource)
}

// RootName returns the [Inventory] key for a root's objects. It differs from [NameOf] because
// filters may need more fields of an object than grouping does.
func RootName(resource schema.GroupVersionResource) string {
	if resource.Group == "" {
		return resource.Resource + ".core"
	}
	return resource.Resource + "." + resource.Group
}

// Roots returns the kinds of root objects, with the reason for each kind that could not be listed.
// The caller must not change the slice. It returns false if no roots were ever requested, as in an
// older snapshot.
func (in *Inventory) Roots() ([]Root, bool) { return in.roots, in.roots != nil }

// WithRoots returns the Inventory with other Roots.
func (in *Inventory) WithRoots(roots []Root) *Inventory {
	out := in.clone()
	out.roots = append(make([]Root, 0, len(roots)), roots...)
	return out
}

// Unread returns the names of the [Root] resources that the caller of [List] was not allowed to
// list, sorted.
func (in *Inventory) Unread() []string {
	var out []string
	for i := range in.roots {
		if in.roots[i].Forbidden {
			out = append(out, fullName(in.roots[i].GroupVersionResource()))
		}
	}
	slices.Sort(out)
	return out
}

// listRoot lists the objects of a kind. If they are forbidden or not served, it records the reason
// in root and returns no error.
func listRoot(ctx context.Context, with *Listing, root *Root) ([]Object, error) {
	resource := root.GroupVersionResource()
	all, err := listAll(ctx, with, resource, func(object map[string]any) (Object, error) {
		return encoded(root.Reduce(&unstructured.Unstructured{Object: object}).Object)
	})
	switch {
	case apierrors.IsForbidden(err):
		root.Trouble, root.Forbidden = fmt.Sprintf("you may not list %s", fullName(resource)), true
	case apierrors.IsNotFound(err):
		root.Trouble = fmt.Sprintf("the API server does not serve %s of %s", root.Resource, root.APIVersion)
	case err != nil:
		return nil, err
	}
	return all, nil
}

// kindOf returns the kind of a list's items.
func kindOf(listKind string) string { return strings.TrimSuffix(listKind, "List") }
