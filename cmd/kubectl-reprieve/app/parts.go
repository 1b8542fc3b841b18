package app

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// parts has the names of the objects that belong to some work. The command why --watch uses it to
// ignore changes of other objects in the namespace.
type parts struct {
	work *subject
	// pods has the names of the work's pods.
	pods sets.Set[string]
	// groups has the keys of the PodGroups of the work's pods. The scheduler may not have written
	// some of these PodGroups yet.
	groups sets.Set[types.NamespacedName]
	// together is true if the work includes all pods of groups, and all pods whose owner is in
	// owners. Then a new pod with such a group or owner belongs to the work too.
	together bool
	owners   sets.Set[types.UID]
}

// parts returns the names of the objects that the method find has found.
func (s *subject) parts() *parts {
	p := &parts{
		work: s, pods: sets.New[string](), groups: sets.New[types.NamespacedName](), owners: sets.New[types.UID](),
		together: s.isGroup() || s.family != nil || s.isGang(),
	}
	if s.isGroup() {
		p.groups.Insert(s.groupKey())
	}
	for _, pg := range s.all {
		if p.groups.Insert(keyOf(pg)); gang.IsTree(keyOf(pg)) {
			p.groups.Insert(s.trees.Below(keyOf(pg))...)
		}
	}
	for _, pod := range s.pods {
		p.pods.Insert(pod.Name)
		if key, ok := s.groups.GroupOf(pod); ok {
			p.groups.Insert(key)
		}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			p.owners.Insert(owner.UID)
		}
	}
	return p
}

// have reports whether a pod or a group in the work's namespace is part of the work. It recognizes
// a new pod by its name, group or owner. It does not recognize some new pods, such as pods of a new
// Job of a JobSet. The next read of the cluster finds these pods.
func (p *parts) have(object *unstructured.Unstructured) bool {
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	switch object.GetKind() {
	case "Pod":
	case kindComposite:
		return p.groups.Has(gang.TreeKey(key.Namespace, key.Name))
	default:
		return p.groups.Has(key)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: object.GetLabels(), OwnerReferences: object.GetOwnerReferences(),
	}}
	if p.pods.Has(pod.Name) || !p.work.isGroup() && p.work.has(pod) {
		return true
	}
	if !p.together {
		return false
	}
	if group, found, _ := unstructured.NestedString(object.Object, "spec", "schedulingGroup", "podGroupName"); found {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	group, named := gang.GroupOf(pod)
	return named && p.groups.Has(group) ||
		slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return p.owners.Has(o.UID) })
}
