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

// Root is a kind of objects that say which pods belong together: Jobs and the like. Which kinds these are depends on a scheduler's
// configuration.
type Root struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	// Trouble says why the objects of the kind are not there; "" where all are.
	Trouble string `json:"trouble,omitempty"`
	// Forbidden is true where that is for want of rights.
	Forbidden bool `json:"forbidden,omitempty"`
	// Reduce leaves of an object what groups go by. It is for [List] only.
	Reduce func(*unstructured.Unstructured) *unstructured.Unstructured `json:"-"`
}

// GroupVersionResource is where the API has the kind.
func (r *Root) GroupVersionResource() schema.GroupVersionResource {
	gv, _ := schema.ParseGroupVersion(r.APIVersion)
	return gv.WithResource(r.Resource)
}

// RootName is how the objects of a [Root] are called in an [Inventory]. It is another name than that of [NameOf]: of the same object, a
// filter may need more than what groups go by.
func RootName(resource schema.GroupVersionResource) string {
	if resource.Group == "" {
		return resource.Resource + ".core"
	}
	return resource.Resource + "." + resource.Group
}

// Roots are the kinds of objects that say which pods belong together, and whether they are among the objects. They must not be
// changed. It reports false for an Inventory that has never asked for any: one of an older snapshot.
func (in *Inventory) Roots() ([]Root, bool) { return in.roots, in.roots != nil }

// WithRoots is the Inventory with other Roots.
func (in *Inventory) WithRoots(roots []Root) *Inventory {
	out := in.clone()
	out.roots = append(make([]Root, 0, len(roots)), roots...)
	return out
}

// Unread names the resources of [Root]s that the caller of [List] was not allowed to list, sorted.
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

// listRoot lists the objects of a kind. That they may not be listed, or are not served, is no error: it is noted.
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

// kindOf is the kind of a list's items.
func kindOf(listKind string) string { return strings.TrimSuffix(listKind, "List") }
