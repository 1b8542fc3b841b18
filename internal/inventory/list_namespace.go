package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/reprieve-dev/reprieve/internal/native"
)

// ListNamespace reads the pods, PodGroups, Jobs and root objects of one namespace, for a caller who
// may not list every resource that [List] reads. These objects suffice to show the status of the
// namespace's workloads. They do not suffice for decisions.
//
// ListNamespace also returns the resources that the caller may not list in the namespace, sorted.
// It returns a [*ForbiddenError] if the caller may not list pods.
func ListNamespace(ctx context.Context, with Listing) (*Inventory, []string, error) {
	out := New(with.Now)
	kind, err := native.Discover(with.Discovery)
	switch {
	case errors.Is(err, native.ErrNotServed):
	case err != nil:
		return nil, nil, fmt.Errorf("look for PodGroups of %s: %w", native.Group, err)
	default:
		out.native = kind.Version
	}
	var unseen []string
	for _, kind := range Kinds() {
		resource := kind.GroupVersionResource
		name := NameOf(resource)
		if !InNamespace(fullName(resource)) || name == NativePodGroups && out.native == "" {
			continue
		}
		if name == NativePodGroups {
			resource.Version = out.native
		}
		objects, err := listAll(ctx, &with, resource, func(object map[string]any) (Object, error) { return trimmed(name, object) })
		switch {
		case apierrors.IsForbidden(err) && name == Pods:
			return nil, nil, &ForbiddenError{Resources: []string{Pods}}
		case apierrors.IsForbidden(err):
			unseen = append(unseen, fullName(resource))
		case err != nil && !apierrors.IsNotFound(err):
			return nil, nil, err
		case len(objects) > 0:
			out.objects[name] = objects
		}
	}
	out.roots = append(make([]Root, 0, len(with.Roots)), with.Roots...)
	for i := range out.roots {
		objects, err := listRoot(ctx, &with, &out.roots[i])
		if err != nil {
			return nil, nil, err
		}
		if len(objects) > 0 {
			out.objects[RootName(out.roots[i].GroupVersionResource())] = objects
		}
	}
	unseen = append(unseen, out.Unread()...)
	slices.Sort(unseen)
	return out, slices.Compact(unseen), nil
}

// InNamespace reports whether [ListNamespace] lists a resource in addition to the root objects.
// resource includes the API group, as in the errors of [List]. Users who may not list such a
// resource in all namespaces may still be allowed to list it in theirs.
func InNamespace(resource string) bool {
	switch resource {
	case Pods, Jobs + ".batch", PodGroups, Composites, NativePodGroups:
		return true
	}
	return false
}
