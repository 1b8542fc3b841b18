package manifest

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// roots are the kinds of objects by which pods belong together, for a scheduler.
type roots struct {
	kinds []inventory.Root
	// existing are the objects of such kinds that were there before, by UID.
	existing map[types.UID]bool
}

// read asks which kinds these are. For an inventory that has none of them, of an older snapshot, there are none.
func (r *roots) read(in *inventory.Inventory, cfg *config.KubeSchedulerConfiguration) error {
	if _, asked := in.Roots(); !asked {
		return nil
	}
	var err error
	r.kinds, err = derived.Roots(cfg)
	r.existing = make(map[types.UID]bool)
	return err
}

// of is the root that a kind is.
func (r *roots) of(apiVersion, kind string) (*inventory.Root, bool) {
	at := slices.IndexFunc(r.kinds, func(root inventory.Root) bool { return root.APIVersion == apiVersion && root.Kind == kind })
	if at < 0 {
		return nil, false
	}
	return &r.kinds[at], true
}

// has reports whether a document is of such a kind.
func (r *roots) has(d *Document) bool {
	_, ok := r.of(d.Object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind())
	return ok
}

// root takes a document in as what says which pods belong together, if it is of such a kind. It returns the UID that the document has.
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

// between takes in the Jobs that stand between a JobSet and its pods.
func (s *submitting) between(d *Document) error {
	object, ok := d.Object.(*unstructured.Unstructured)
	if !ok || object.GetKind() != "JobSet" {
		return nil
	}
	kind, ok := s.roots.of(batchv1.SchemeGroupVersion.String(), "Job")
	set, err := readJobSet(d, object)
	if !ok || set == nil || err != nil {
		return err
	}
	owner := metav1.OwnerReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), Controller: ptr.To(true),
		UID: uidOf("JobSet", object.GetNamespace(), object.GetName()),
	}
	if jobSets, ok := s.roots.of(object.GetAPIVersion(), object.GetKind()); ok {
		if found, ok := s.inventory.Find(inventory.RootName(jobSets.GroupVersionResource()), object.GetNamespace(), object.GetName()); ok {
			owner.UID = found.UID
		}
	}
	return set.jobs(object.GetName(), func(job, _ string, _ int32, _ *batchv1.JobSpec) error {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(batchv1.SchemeGroupVersion.String())
		u.SetKind("Job")
		u.SetNamespace(object.GetNamespace())
		u.SetName(job)
		u.SetUID(uidOf("Job", object.GetNamespace(), job))
		u.SetOwnerReferences([]metav1.OwnerReference{owner})
		return s.putRoot(d, inventory.RootName(kind.GroupVersionResource()), u)
	})
}

// group finds out which pods belong together, and takes in the PodGroups that the scheduler makes for them.
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
		groups, err := s.derived.PodGroups(s.inventory, m.pods)
		if err != nil {
			return m.of.fault("%v", err)
		}
		for _, pg := range groups {
			if err := s.fillInGroup(ctx, asDocument(m.of, pg)); err != nil {
				return err
			}
		}
	}
	return nil
}

// asDocument is a PodGroup that is made for another document.
func asDocument(of *Document, pg *v1alpha1.PodGroup) *Document {
	return &Document{File: of.File, Line: of.Line, Object: pg, Meta: pg, Kind: "PodGroup"}
}
