package native

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// Client is a client that presents the PodGroups of scheduling.k8s.io as PodGroups of reprieve.dev.
// It can get and list them and write their status. If both APIs have a PodGroup of the same name,
// Get returns the PodGroup of reprieve.dev. All other calls go to the wrapped client. Client is
// safe for concurrent use.
type Client struct {
	client.Client
	kind schema.GroupVersionKind
}

// NewClient returns a Client for PodGroups of a kind of scheduling.k8s.io. If c reads from a cache,
// the cache must also serve unstructured objects.
func NewClient(c client.Client, kind schema.GroupVersionKind) *Client {
	return &Client{Client: c, kind: kind}
}

// NewObject returns an empty object of a kind.
func NewObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// Get reads an object. If reprieve.dev has no PodGroup with the key, Get reads it from
// scheduling.k8s.io instead.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	pg, ok := obj.(*v1alpha1.PodGroup)
	if !ok || !apierrors.IsNotFound(err) {
		return err
	}
	u := NewObject(c.kind)
	if err := c.Client.Get(ctx, key, u, opts...); err != nil {
		return err
	}
	*pg = *FromObject(u)
	return nil
}

// Unpaged returns the options of a list without its paging, for a second list of another kind. A
// continue token is valid only for the kind of the first list.
func Unpaged(opts []client.ListOption) []client.ListOption {
	out := make([]client.ListOption, 0, len(opts)+1)
	for _, opt := range opts {
		if _, isToken := opt.(client.Continue); !isToken {
			out = append(out, opt)
		}
	}
	return append(out, client.Limit(0))
}

// List reads objects. In a list of PodGroups, the PodGroups of scheduling.k8s.io follow on the last
// page.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	groups, ok := list.(*v1alpha1.PodGroupList)
	if !ok || groups.Continue != "" {
		return nil
	}
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(c.kind.GroupVersion().WithKind(c.kind.Kind + "List"))
	if err := c.Client.List(ctx, all, Unpaged(opts)...); err != nil {
		return err
	}
	for i := range all.Items {
		groups.Items = append(groups.Items, *FromObject(&all.Items[i]))
	}
	return nil
}

// Status returns a writer of statuses, which also accepts PodGroups of scheduling.k8s.io.
func (c *Client) Status() client.SubResourceWriter {
	return &statusWriter{SubResourceWriter: c.Client.Status(), kind: c.kind}
}

type statusWriter struct {
	client.SubResourceWriter
	kind schema.GroupVersionKind
}

// Update writes the status of an object. It fails with a conflict if the object has changed since
// the caller read it.
func (w *statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if pg, ok := obj.(*v1alpha1.PodGroup); ok && IsNative(pg) {
		return w.write(ctx, pg)
	}
	return w.SubResourceWriter.Update(ctx, obj, opts...)
}

// Patch writes the changes to the status of an object. For a PodGroup of scheduling.k8s.io, it
// replaces all conditions. It writes nothing if the status of scheduling.k8s.io cannot store any of
// the changed fields.
func (w *statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	pg, ok := obj.(*v1alpha1.PodGroup)
	if !ok || !IsNative(pg) {
		return w.SubResourceWriter.Patch(ctx, obj, patch, opts...)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("make the patch: %w", err)
	}
	var changes struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(data, &changes); err != nil {
		return fmt.Errorf("read the patch: %w", err)
	}
	for _, field := range []string{"conditions", "startTime", "disruption", "lastDisruption"} {
		if _, changed := changes.Status[field]; changed {
			return w.write(ctx, pg)
		}
	}
	return nil
}

// write replaces the conditions of a PodGroup of scheduling.k8s.io. It fails with a conflict if the
// object has changed since the caller read it.
func (w *statusWriter) write(ctx context.Context, pg *v1alpha1.PodGroup) error {
	if w.kind.Version != firstVersion {
		setInitially(&pg.Status.Conditions)
	}
	conditions, err := allConditions(&pg.Status)
	if err != nil {
		return err
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": pg.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("encode the conditions: %w", err)
	}
	u := NewObject(w.kind)
	u.SetNamespace(pg.Namespace)
	u.SetName(pg.Name)
	if err := w.SubResourceWriter.Patch(ctx, u, client.RawPatch(types.MergePatchType, data)); err != nil {
		return err
	}
	pg.ResourceVersion = u.GetResourceVersion()
	return nil
}
