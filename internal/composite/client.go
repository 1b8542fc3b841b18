// Package composite provides a client that presents each CompositePodGroup as a PodGroup. So the
// controllers and evictions need no code for the second kind. The name of such a PodGroup has a
// prefix; see [gang.TreeKey].
package composite

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// Client is a client that presents CompositePodGroups as PodGroups. It can get and list them and
// write their status. All other calls go to the wrapped client. Client is safe for concurrent use.
type Client struct{ client.Client }

// NewClient returns a Client that reads CompositePodGroups of reprieve.dev through c.
func NewClient(c client.Client) *Client { return &Client{c} }

// Get reads an object. For the key of a tree, it reads the CompositePodGroup and returns it as a
// PodGroup.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	pg, ok := obj.(*v1alpha1.PodGroup)
	name, isTree := gang.CompositeOf(key)
	if !ok || !isTree {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	var found v1alpha1.CompositePodGroup
	if err := c.Client.Get(ctx, name, &found, opts...); err != nil {
		return err
	}
	*pg = *gang.AsPodGroup(&found)
	return nil
}

// List reads objects. In a list of PodGroups, CompositePodGroups follow on the last page.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	groups, ok := list.(*v1alpha1.PodGroupList)
	if !ok || groups.Continue != "" {
		return nil
	}
	var all v1alpha1.CompositePodGroupList
	if err := c.Client.List(ctx, &all, native.Unpaged(opts)...); err != nil {
		return err
	}
	for i := range all.Items {
		groups.Items = append(groups.Items, *gang.AsPodGroup(&all.Items[i]))
	}
	return nil
}

// Status returns a writer of statuses, which also accepts PodGroups that stand for
// CompositePodGroups.
func (c *Client) Status() client.SubResourceWriter { return &statusWriter{c.Client.Status()} }

type statusWriter struct{ client.SubResourceWriter }

// Update writes the status of an object. It fails with a conflict if the object has changed since
// the caller read it.
func (w *statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	pg, to, ok := treeOf(obj)
	if !ok {
		return w.SubResourceWriter.Update(ctx, obj, opts...)
	}
	to.UID, to.ResourceVersion, to.Status = pg.UID, pg.ResourceVersion, pg.Status
	if err := w.SubResourceWriter.Update(ctx, to, opts...); err != nil {
		return err
	}
	pg.ResourceVersion = to.ResourceVersion
	return nil
}

// Patch writes the changes to the status of an object.
func (w *statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	pg, to, ok := treeOf(obj)
	if !ok {
		return w.SubResourceWriter.Patch(ctx, obj, patch, opts...)
	}
	if kind := patch.Type(); kind != types.MergePatchType && kind != types.JSONPatchType {
		return fmt.Errorf("patch the status of %s: got a patch of type %s, want %s or %s",
			gang.Title(client.ObjectKeyFromObject(pg)), kind, types.MergePatchType, types.JSONPatchType)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	if err := w.SubResourceWriter.Patch(ctx, to, client.RawPatch(patch.Type(), data), opts...); err != nil {
		return err
	}
	pg.ResourceVersion = to.ResourceVersion
	return nil
}

// treeOf returns the PodGroup that stands for a CompositePodGroup. It also returns a
// CompositePodGroup with only its namespace and name set, which the caller fills and writes. It
// returns false for all other objects.
func treeOf(obj client.Object) (*v1alpha1.PodGroup, *v1alpha1.CompositePodGroup, bool) {
	pg, ok := obj.(*v1alpha1.PodGroup)
	if !ok {
		return nil, nil, false
	}
	name, isTree := gang.CompositeOf(client.ObjectKeyFromObject(pg))
	to := &v1alpha1.CompositePodGroup{}
	to.Namespace, to.Name = name.Namespace, name.Name
	return pg, to, isTree
}
