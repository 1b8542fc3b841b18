package composite

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Editor is a Client that also creates, changes and deletes CompositePodGroups, which it presents
// as PodGroups. The minCount of such a PodGroup is the minGroupCount of the CompositePodGroup.
// Editor is safe for concurrent use.
type Editor struct{ *Client }

// NewEditor returns an Editor that reads and writes CompositePodGroups of reprieve.dev through c.
func NewEditor(c client.Client) *Editor { return &Editor{NewClient(c)} }

// Get reads an object. For the key of a tree, it reads the CompositePodGroup and returns it as a
// PodGroup.
func (e *Editor) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	pg, ok := obj.(*v1alpha1.PodGroup)
	name, isTree := gang.CompositeOf(key)
	if !ok || !isTree {
		return e.Client.Get(ctx, key, obj, opts...)
	}
	var found v1alpha1.CompositePodGroup
	if err := e.Client.Get(ctx, name, &found, opts...); err != nil {
		return err
	}
	*pg = *gang.AsGang(&found)
	return nil
}

// Create creates an object. For a PodGroup with the key of a tree, it creates the
// CompositePodGroup.
func (e *Editor) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	pg, _, ok := treeOf(obj)
	if !ok {
		return e.Client.Create(ctx, obj, opts...)
	}
	to := gang.ToComposite(pg)
	if err := e.Client.Create(ctx, to, opts...); err != nil {
		return err
	}
	pg.UID, pg.ResourceVersion = to.UID, to.ResourceVersion
	return nil
}

// Delete deletes an object. For a PodGroup with the key of a tree, it deletes the
// CompositePodGroup.
func (e *Editor) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if _, to, ok := treeOf(obj); ok {
		obj = to
	}
	return e.Client.Delete(ctx, obj, opts...)
}

// Patch writes the changes of an object. For a PodGroup that stands for a CompositePodGroup, the
// patch must be a merge patch.
func (e *Editor) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	pg, to, ok := treeOf(obj)
	if !ok {
		return e.Client.Patch(ctx, obj, patch, opts...)
	}
	data, err := patch.Data(obj)
	if err == nil {
		data, err = countGroups(data)
	}
	if err != nil {
		return fmt.Errorf("make the patch of %s: %w", gang.Title(client.ObjectKeyFromObject(pg)), err)
	}
	if err := e.Client.Patch(ctx, to, client.RawPatch(types.MergePatchType, data), opts...); err != nil {
		return err
	}
	pg.ResourceVersion = to.ResourceVersion
	return nil
}

// countGroups renames minCount in a merge patch to minGroupCount.
func countGroups(patch []byte) ([]byte, error) {
	fields := make(map[string]any)
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	at := []string{"spec", "schedulingPolicy", "gang"}
	policy, ok, err := unstructured.NestedMap(fields, at...)
	if !ok || err != nil {
		return patch, err
	}
	policy["minGroupCount"] = policy["minCount"]
	delete(policy, "minCount")
	if err := unstructured.SetNestedMap(fields, policy, at...); err != nil {
		return nil, fmt.Errorf("change the patch: %w", err)
	}
	return json.Marshal(fields)
}
