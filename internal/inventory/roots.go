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

// Root is a kind of root object, such as Job or JobSet. A root object defines which pods belong
// together. The scheduler's configuration determines the kinds.
type Root struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	// Trouble is the reason why the Inventory lacks the objects of this kind. It is empty if the
	// Inventory has them.
	Trouble string `json:"trouble,omitempty"`
	// Forbidden is true if the caller lacked the right to list the objects.
	Forbidden bool `json:"forbidden,omitempty"`
	// Reduce returns an object without the fields that grouping does not need. Only [List] and
	// [ListNamespace] call it.
	Reduce func(*unstructured.Unstructured) *unstructured.Unstructured `json:"-"`
}

// GroupVersionResource returns the resource of the kind in the API.
func (r *Root) GroupVersionResource() schema.GroupVersionResource {
	gv, _ := schema.ParseGroupVersion(r.APIVersion)
	return gv.WithResource(r.Resource)
}

// RootName returns the resource name of root objects in an [Inventory]. It differs from [NameOf],
// because the Inventory may hold the same objects twice: in reduced form for grouping, and with the
// fields that filters need.
func RootName(resource schema.GroupVersionResource) string {
	if resource.Group == "" {
		return resource.Resource + ".core"
	}
	return resource.Resource + "." + resource.Group
}

// Roots returns the kinds of root objects, with the reason for each kind that could not be listed.
// The caller must not change the slice. Roots returns false if no kinds were requested, as in a
// file of the older version.
func (in *Inventory) Roots() ([]Root, bool) { return in.roots, in.roots != nil }

// WithRoots returns a copy of the Inventory with other kinds of root objects.
func (in *Inventory) WithRoots(roots []Root) *Inventory {
	out := in.clone()
	out.roots = append(make([]Root, 0, len(roots)), roots...)
	return out
}

// Unread returns the resources of root objects that the caller of [List] may not list, sorted.
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

// listRoot lists the objects of one root kind. If the caller may not list them, or the server does
// not serve them, it records the reason in root and returns no error.
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

// kindOf returns the kind of the items of a list kind, such as Pod for PodList.
func kindOf(listKind string) string { return strings.TrimSuffix(listKind, "List") }
