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

// ForbiddenError is the error of [List] for a caller who may not list all that deciding needs.
type ForbiddenError struct {
	// Resources are those that the caller may not list, sorted.
	Resources []string
}

// Error names all missing rights.
func (e *ForbiddenError) Error() string {
	return "you may not list " + strings.Join(e.Resources, ", ") + " in all namespaces, which deciding needs; " +
		"ask for the ClusterRole reprieve-planner, or use --snapshot with a file of somebody who may"
}

// NotServedError is the error of [List] for a server that does not have what Reprieve is installed with.
type NotServedError struct {
	// Resources are those that are not served, sorted.
	Resources []string
}

// Error names what is not served.
func (e *NotServedError) Error() string {
	return "the API server does not serve " + strings.Join(e.Resources, ", ") + ": Reprieve is not installed in this cluster, or the context is another one's"
}

// Listing is what [List] lists with.
type Listing struct {
	Client    dynamic.Interface
	Discovery discovery.DiscoveryInterface
	// Now is the moment that the Inventory is of.
	Now time.Time
	// Roots are the kinds to list of those that say which pods belong together. Of those that the caller may not list, or that are not
	// served, the Inventory says so.
	Roots []Root
	// Namespace restricts [ListNamespace]; [List] ignores it.
	Namespace string
	// Progress is told, from several goroutines, how many objects of a resource have come so far; nil for nothing that is.
	Progress func(resource string, objects int)
}

const (
	// page is how many objects are listed by one call.
	page = 500
	// lists is how many calls are under way at the same time.
	lists = 4
)

// List reads from a cluster all that deciding needs, page by page, with the caller's own rights. It only lists. It returns a
// [*ForbiddenError] or a [*NotServedError] where that is what is in the way.
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

// take takes in what was listed of some kinds, or says what is in the way.
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

// isExpected tells the answers that say something of the cluster or the caller from those that say that listing failed.
func isExpected(err error) bool {
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

func fullName(resource schema.GroupVersionResource) string {
	if resource.Group == "" {
		return resource.Resource
	}
	return resource.Resource + "." + resource.Group
}

// listAll lists all objects of a resource, each as the function made makes it of what the server has. A list that is too old to go on
// with is begun again, once.
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
