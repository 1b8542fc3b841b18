package stage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// Group describes a PodGroup of either API.
type Group struct {
	Name string
	// MinCount is the minCount of a gang, or 0 for the basic policy.
	MinCount int32
	// Whole is true for the disruption mode PodGroup.
	Whole    bool
	Priority string
	// TopologyKey is a node label whose value all members must share. If it is empty, there is no
	// such label.
	TopologyKey string
	// PreferredKeys are node labels whose values the members should share.
	PreferredKeys []string
	// Finalizers are the finalizers of the PodGroup.
	Finalizers []string
	// Template is the reference to a template of a Workload. It applies only to PodGroups of
	// reprieve.dev.
	Template *v1alpha1.PodGroupTemplateReference
}

// GroupAPI is one of the two API groups with a kind PodGroup.
type GroupAPI struct {
	// Name is the name of the API group, such as reprieve.dev.
	Name string
	// Join makes a pod a member of a PodGroup. MemberOf returns the name of a pod's PodGroup, or
	// "".
	Join     func(pod *corev1.Pod, group string)
	MemberOf func(pod *corev1.Pod) string

	build func(Group) client.Object
}

// ReprieveGroups returns the GroupAPI for reprieve.dev.
func ReprieveGroups() GroupAPI {
	return GroupAPI{
		Name: v1alpha1.GroupName,
		Join: func(pod *corev1.Pod, group string) {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, v1alpha1.LabelPodGroup, group)
		},
		MemberOf: func(pod *corev1.Pod) string { return pod.Labels[v1alpha1.LabelPodGroup] },
		build:    func(g Group) client.Object { return g.reprieve() },
	}
}

// NativeGroups returns the GroupAPI for scheduling.k8s.io, in the version that the API server
// serves. It requires Kubernetes 1.36 or later.
func NativeGroups(t testing.TB) GroupAPI {
	t.Helper()
	build := Group.native
	if Kubernetes(t).WorkloadAPI == "v1alpha2" {
		build = Group.nativeOf136
	}
	return GroupAPI{
		Name: schedulingv1beta1.GroupName,
		Join: func(pod *corev1.Pod, group string) {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		},
		MemberOf: func(pod *corev1.Pod) string {
			if pod.Spec.SchedulingGroup == nil {
				return ""
			}
			return ptr.Deref(pod.Spec.SchedulingGroup.PodGroupName, "")
		},
		build: build,
	}
}

// GroupAPIs returns the GroupAPI for reprieve.dev, and for scheduling.k8s.io if the API server has
// its PodGroups.
func GroupAPIs(t testing.TB) []GroupAPI {
	t.Helper()
	if Kubernetes(t).Minor < 36 {
		return []GroupAPI{ReprieveGroups()}
	}
	return []GroupAPI{ReprieveGroups(), NativeGroups(t)}
}

// New returns a PodGroup in a namespace.
func (api GroupAPI) New(namespace string, g Group) client.Object {
	pg := api.build(g)
	pg.SetNamespace(namespace)
	pg.SetName(g.Name)
	pg.SetFinalizers(g.Finalizers)
	return pg
}

func (g Group) reprieve() *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{}
	pg.Spec.PodGroupTemplateRef = g.Template
	switch {
	case g.Template != nil:
	case g.MinCount > 0:
		pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: g.MinCount}}
	default:
		pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
	}
	if g.Whole {
		pg.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
	}
	if g.Priority != "" {
		pg.Spec.PriorityClassName = &g.Priority
	}
	var topology []v1alpha1.TopologyConstraint
	for _, key := range g.PreferredKeys {
		topology = append(topology, v1alpha1.TopologyConstraint{Key: key, Mode: v1alpha1.TopologyModePreferred})
	}
	if g.TopologyKey != "" {
		topology = append(topology, v1alpha1.TopologyConstraint{Key: g.TopologyKey})
	}
	if len(topology) > 0 {
		pg.Spec.SchedulingConstraints = &v1alpha1.SchedulingConstraints{Topology: topology}
	}
	return pg
}

func (g Group) native() client.Object {
	pg := &schedulingv1beta1.PodGroup{}
	pg.Spec.PriorityClassName = g.Priority
	if g.MinCount > 0 {
		pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: g.MinCount}
	} else {
		pg.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	if g.Whole {
		pg.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	return pg
}

// nativeOf136 returns a PodGroup of scheduling.k8s.io/v1alpha2, the version in Kubernetes 1.36. It
// is unstructured, because the current k8s.io/api does not contain this version.
func (g Group) nativeOf136() client.Object {
	policy := map[string]any{"basic": map[string]any{}}
	if g.MinCount > 0 {
		policy = map[string]any{"gang": map[string]any{"minCount": int64(g.MinCount)}}
	}
	spec := map[string]any{"schedulingPolicy": policy}
	if g.Priority != "" {
		spec["priorityClassName"] = g.Priority
	}
	if g.Whole {
		spec["disruptionMode"] = "PodGroup"
	}
	pg := native.NewObject(schema.GroupVersionKind{Group: native.Group, Version: "v1alpha2", Kind: "PodGroup"})
	pg.Object["spec"] = spec
	return pg
}

// ConditionsOf returns the conditions of a PodGroup of either API.
func ConditionsOf(obj client.Object) []metav1.Condition {
	switch pg := obj.(type) {
	case *unstructured.Unstructured:
		return native.ReadConditions(pg)
	case *v1alpha1.PodGroup:
		return pg.Status.Conditions
	case *schedulingv1beta1.PodGroup:
		return pg.Status.Conditions
	}
	return nil
}

// NewGroup returns a PodGroup in the test's namespace.
func (s *Stage) NewGroup(g Group) client.Object { return s.Groups.New(s.Namespace, g) }

// CreateGroup creates a PodGroup in the test's namespace.
func (s *Stage) CreateGroup(g Group) {
	s.Helper()
	s.Create(s.NewGroup(g))
}

// PodGroup returns a PodGroup in the test's namespace, or nil if it does not exist.
func (s *Stage) PodGroup(ctx context.Context, name string) client.Object {
	s.Helper()
	pg := s.NewGroup(Group{Name: name})
	err := s.Objects.Get(ctx, client.ObjectKeyFromObject(pg), pg)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		s.Fatalf("get PodGroup %s: %v", name, err)
	}
	return pg
}

// allGroups returns the PodGroups in the test's namespace, of all APIs that the API server serves.
func (s *Stage) allGroups(ctx context.Context) []client.Object {
	var out []client.Object
	var own v1alpha1.PodGroupList
	if err := s.Objects.List(ctx, &own, client.InNamespace(s.Namespace)); err == nil {
		for i := range own.Items {
			out = append(out, &own.Items[i])
		}
	}
	theirs := &unstructured.UnstructuredList{}
	theirs.SetAPIVersion(native.Group + "/" + s.kubernetes.WorkloadAPI)
	theirs.SetKind("PodGroupList")
	if err := s.Objects.List(ctx, theirs, client.InNamespace(s.Namespace)); err == nil {
		for i := range theirs.Items {
			out = append(out, &theirs.Items[i])
		}
	}
	return out
}

// clearGroups deletes all PodGroups of the namespace, with one request for each API. A version of
// Kubernetes without one of the APIs is no error.
func (s *Stage) clearGroups(ctx context.Context) error {
	kinds := []client.Object{&v1alpha1.PodGroup{}}
	if s.kubernetes.WorkloadAPI != "" {
		theirs := &unstructured.Unstructured{}
		theirs.SetAPIVersion(native.Group + "/" + s.kubernetes.WorkloadAPI)
		theirs.SetKind("PodGroup")
		kinds = append(kinds, theirs)
	}
	var errs []error
	for _, kind := range kinds {
		err := s.Objects.DeleteAllOf(ctx, kind, client.InNamespace(s.Namespace))
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// RemoveGroup deletes a PodGroup. A PodGroup with finalizers exists until they are removed.
func (s *Stage) RemoveGroup(name string) {
	s.Helper()
	if err := s.Objects.Delete(s.Context(), s.NewGroup(Group{Name: name})); err != nil {
		s.Fatalf("delete PodGroup %s: %v", name, err)
	}
}

// LetGroupGo removes all finalizers of a PodGroup. It does nothing if the PodGroup does not exist.
func (s *Stage) LetGroupGo(name string) {
	s.Helper()
	ctx := context.WithoutCancel(s.Context())
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := client.IgnoreNotFound(s.Objects.Patch(ctx, s.NewGroup(Group{Name: name}), patch)); err != nil {
		s.Errorf("take the finalizers off PodGroup %s: %v", name, err)
	}
}

// Condition returns a condition of a PodGroup by its type, or nil.
func (s *Stage) Condition(ctx context.Context, group, kind string) *metav1.Condition {
	s.Helper()
	return meta.FindStatusCondition(ConditionsOf(s.PodGroup(ctx, group)), kind)
}

// WaitCondition waits until a condition of a PodGroup has the status and the reason, and its
// message contains all phrases.
func (s *Stage) WaitCondition(group, kind string, status metav1.ConditionStatus, reason string, phrases ...string) {
	s.Helper()
	s.Eventually(fmt.Sprintf("PodGroup %s has condition %s=%s, %s", group, kind, status, reason), func(ctx context.Context) string {
		c := s.Condition(ctx, group, kind)
		switch {
		case c == nil:
			return "it has no such condition"
		case c.Status != status || c.Reason != reason || !Mentions(c.Message, phrases):
			return fmt.Sprintf("it is %s, %s: %s (wanted %q)", c.Status, c.Reason, c.Message, phrases)
		}
		return ""
	})
}
