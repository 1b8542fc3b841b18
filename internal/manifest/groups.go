package manifest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// roots holds the kinds of root objects. A root object, such as a Job, defines which pods belong
// together.
type roots struct {
	kinds []inventory.Root
	// existing holds the UIDs of the submitted root objects that were in the inventory before.
	existing map[types.UID]bool
}

// read sets the kinds of root objects from the scheduler's configuration. It sets none for an
// inventory from an older snapshot, which has no root objects.
func (r *roots) read(in *inventory.Inventory, cfg *config.KubeSchedulerConfiguration) error {
	if _, asked := in.Roots(); !asked {
		return nil
	}
	var err error
	r.kinds, err = derived.Roots(cfg)
	r.existing = make(map[types.UID]bool)
	return err
}

// of returns the root with a kind. It returns false if the kind is not a root.
func (r *roots) of(apiVersion, kind string) (*inventory.Root, bool) {
	at := slices.IndexFunc(r.kinds, func(root inventory.Root) bool { return root.APIVersion == apiVersion && root.Kind == kind })
	if at < 0 {
		return nil, false
	}
	return &r.kinds[at], true
}

// has reports whether the document's kind is a root.
func (r *roots) has(d *Document) bool {
	_, ok := r.of(d.Object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind())
	return ok
}

// root adds a document's object to the inventory if its kind is a root. It returns the UID of the
// object: the UID of an existing object with the same name, or otherwise a generated one.
func (s *submitting) root(d *Document) (types.UID, error) {
	uid := uidOf(d.Kind, d.Meta.GetNamespace(), d.Meta.GetName())
	kind, ok := s.roots.of(d.Object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind())
	if !ok {
		return uid, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d.Object)
	if err != nil {
		return "", d.fault("%v", err)
	}
	u := &unstructured.Unstructured{Object: fields}
	name := inventory.RootName(kind.GroupVersionResource())
	if before, exists := s.inventory.Find(name, u.GetNamespace(), u.GetName()); exists {
		uid = before.UID
		s.roots.existing[uid] = true
	}
	u.SetUID(uid)
	return uid, s.putRoot(d, name, kind.Reduce(u))
}

func (s *submitting) putRoot(d *Document, name string, u *unstructured.Unstructured) error {
	next, err := s.inventory.With(inventory.Change{Resource: name, Object: u})
	if err != nil {
		return d.fault("%v", err)
	}
	s.inventory = next
	return nil
}

// between adds intermediate objects to the inventory: objects that a submitted object owns and that
// own its pods. Examples are the Jobs of a JobSet and the RayCluster of a RayJob.
func (s *submitting) between(d *Document) error {
	object, ok := d.Object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	made, err := s.made(d, object)
	if err != nil {
		return err
	}
	for _, u := range made {
		kind, ok := s.roots.of(u.GetAPIVersion(), u.GetKind())
		if !ok {
			continue
		}
		if err := s.putRoot(d, inventory.RootName(kind.GroupVersionResource()), kind.Reduce(u)); err != nil {
			return err
		}
	}
	return nil
}

// find returns the root object in the inventory that has the name of a submitted object.
func (s *submitting) find(kind *inventory.Root, object *unstructured.Unstructured) (inventory.Object, bool) {
	return s.inventory.Find(inventory.RootName(kind.GroupVersionResource()), object.GetNamespace(), object.GetName())
}

// group derives the groups of the pods and adds the PodGroups that the scheduler would create to
// the inventory. It returns an error if a pod's gang belongs to an object that existed before, or
// if a PodGroup cannot be created.
func (s *submitting) group(ctx context.Context, cfg *config.KubeSchedulerConfiguration, made []podsMade) error {
	var err error
	if s.derived, err = derived.New(s.inventory, cfg); err != nil {
		return fmt.Errorf("find out which pods belong together: %w", err)
	}
	for i := range made {
		m := &made[i]
		for _, pod := range m.pods {
			if _, named := gang.GroupOf(pod); named {
				continue
			}
			key, ok := s.derived.GroupOf(pod)
			if !ok {
				continue
			}
			if g, ok := s.derived.Group(key); ok && s.roots.existing[g.Owner.UID] {
				return m.of.fault("it exists already, and its pods are a gang; ask about them with: kubectl reprieve why POD -n %s", pod.Namespace)
			}
		}
		groups, unwritten, err := s.derived.PodGroups(s.inventory, m.pods)
		if err != nil {
			return m.of.fault("%v", err)
		}
		if len(unwritten) > 0 {
			return m.of.fault("the scheduler can make no PodGroup for it: %s", unwritten[0].Why)
		}
		for _, pg := range groups {
			fill := s.fillInGroup
			d := asDocument(m.of, pg)
			if gang.IsTree(types.NamespacedName{Name: pg.Name}) {
				fill = s.fillInComposite
				d = asDocument(m.of, gang.ToComposite(pg))
			}
			if err := fill(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// asDocument returns a document for a group that is derived from another document. It has the file
// and line of that other document.
func asDocument(of *Document, group client.Object) *Document {
	return &Document{File: of.File, Line: of.Line, Object: group, Meta: group, Kind: cmp.Or(group.GetObjectKind().GroupVersionKind().Kind, "PodGroup")}
}
