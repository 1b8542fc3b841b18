package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/reprieve-dev/reprieve/internal/native"
)

// ForbiddenError is the error of [List] if the caller may not list a necessary resource.
type ForbiddenError struct {
	// Resources are the resources that the caller may not list, sorted.
	Resources []string
}

// Error names all missing rights.
func (e *ForbiddenError) Error() string {
	return "you may not list " + strings.Join(e.Resources, ", ") + " in all namespaces, which deciding needs; " +
		"ask for the ClusterRole reprieve-planner, or use --snapshot with a file of somebody who may"
}

// NotServedError is the error of [List] if the API server lacks resources that Reprieve installs or
// requires.
type NotServedError struct {
	// Resources are the resources that the server does not serve, sorted.
	Resources []string
}

// Error names all missing resources.
func (e *NotServedError) Error() string {
	return "the API server does not serve " + strings.Join(e.Resources, ", ") + ": Reprieve is not installed in this cluster, or the context is another one's"
}

// Listing holds the clients and options for [List] and [ListNamespace].
type Listing struct {
	Client    dynamic.Interface
	Discovery discovery.DiscoveryInterface
	// Now becomes the Inventory's time.
	Now time.Time
	// Roots lists the kinds of root objects to list. The Inventory records which of these kinds the
	// caller may not list, and which kinds the server does not serve.
	Roots []Root
	// Namespace is the namespace that [ListNamespace] lists. [List] ignores it.
	Namespace string
	// Progress receives the number of objects read so far for a resource. It is called
	// concurrently. It may be nil.
	Progress func(resource string, objects int)
}

const (
	// page is the maximum number of objects in one list call.
	page = 500
	// lists is the maximum number of concurrent list calls.
	lists = 4
)

// List reads all objects that decisions depend on, page by page, with the caller's own rights. It
// only makes list and discovery requests. It returns a [*NotServedError] if required resources are
// missing, otherwise a [*ForbiddenError] if rights are missing.
func List(ctx context.Context, with Listing) (*Inventory, error) {
	with.Namespace = ""
	out := New(with.Now)
	kinds := Kinds()
	kind, err := native.Discover(with.Discovery)
	switch {
	case errors.Is(err, native.ErrNotServed):
	case err != nil:
		return nil, fmt.Errorf("look for PodGroups of %s: %w", native.Group, err)
	default:
		out.native = kind.Version
	}
	results := make([][]Object, len(kinds))
	failures := make([]error, len(kinds))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(lists)
	for i := range kinds {
		resource := kinds[i].GroupVersionResource
		if NameOf(resource) == NativePodGroups {
			if out.native == "" {
				continue
			}
			resource.Version = out.native
		}
		group.Go(func() error {
			results[i], failures[i] = listAll(within, &with, resource, func(object map[string]any) (Object, error) {
				return trimmed(NameOf(resource), object)
			})
			if isExpected(failures[i]) {
				return nil
			}
			return failures[i]
		})
	}
	roots := append(make([]Root, 0, len(with.Roots)), with.Roots...)
	rooted := make([][]Object, len(roots))
	for i := range roots {
		group.Go(func() (err error) {
			rooted[i], err = listRoot(within, &with, &roots[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out.roots = roots
	for i := range roots {
		if len(rooted[i]) > 0 {
			out.objects[RootName(roots[i].GroupVersionResource())] = rooted[i]
		}
	}
	if err := out.take(kinds, results, failures); err != nil {
		return nil, err
	}
	return out, nil
}

// take stores the results of the list calls. kinds, results and failures have the same order. It
// returns an error if a required resource is not served, or if a necessary resource is forbidden.
func (in *Inventory) take(kinds []Kind, results [][]Object, failures []error) error {
	var forbidden, missing []string
	for i := range kinds {
		name := NameOf(kinds[i].GroupVersionResource)
		switch {
		case apierrors.IsForbidden(failures[i]) && !kinds[i].Dispensable:
			forbidden = append(forbidden, fullName(kinds[i].GroupVersionResource))
		case failures[i] != nil && kinds[i].Required:
			missing = append(missing, fullName(kinds[i].GroupVersionResource))
		case failures[i] == nil && len(results[i]) > 0:
			in.objects[name] = results[i]
		}
	}
	switch {
	case len(missing) > 0:
		slices.Sort(missing)
		return &NotServedError{Resources: missing}
	case len(forbidden) > 0:
		slices.Sort(forbidden)
		return &ForbiddenError{Resources: forbidden}
	}
	return nil
}

// isExpected reports whether err is nil, or means that the resource is forbidden or not served.
func isExpected(err error) bool {
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

func fullName(resource schema.GroupVersionResource) string {
	if resource.Group == "" {
		return resource.Resource
	}
	return resource.Resource + "." + resource.Group
}

// listAll lists all objects of a resource, converts each by the function made, and sorts them by
// namespace and name. If the continue token of a page expires, it starts again once.
func listAll(ctx context.Context, with *Listing, resource schema.GroupVersionResource, made func(map[string]any) (Object, error)) ([]Object, error) {
	var out []Object
	for next, again := "", false; ; {
		var from dynamic.ResourceInterface = with.Client.Resource(resource)
		if with.Namespace != "" {
			from = with.Client.Resource(resource).Namespace(with.Namespace)
		}
		list, err := from.List(ctx, metav1.ListOptions{Limit: page, Continue: next})
		if apierrors.IsResourceExpired(err) && next != "" && !again {
			out, next, again = nil, "", true
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", fullName(resource), err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(schema.GroupVersionKind{
				Group: resource.Group, Version: resource.Version, Kind: kindOf(list.GetKind()),
			})
			object, err := made(list.Items[i].Object)
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", fullName(resource), err)
			}
			out = append(out, object)
		}
		if with.Progress != nil {
			with.Progress(NameOf(resource), len(out))
		}
		if next = list.GetContinue(); next == "" {
			slices.SortFunc(out, byName)
			return out, nil
		}
	}
}
