package app

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// subject is the workload that a question is about.
type subject struct {
	// kind is Pod, Job or PodGroup; key names it.
	kind string
	key  types.NamespacedName
	// group is the PodGroup of reprieve.dev that it is, or is a part of; nil where there is none.
	group *v1alpha1.PodGroup
	// pods are all that it has; of a pod in a gang, those of the gang.
	pods []*corev1.Pod
	// groups knows which pods belong together.
	groups gang.Membership
}

// name is the subject for people.
func (s *subject) name() string { return strings.ToLower(s.kind) + " " + s.key.String() }

// pending are the pods that wait for a node.
func (s *subject) pending() []*corev1.Pod {
	return s.filtered(func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !isOver(pod)
	})
}

// placed are the pods that have a node and have not finished.
func (s *subject) placed() []*corev1.Pod {
	return s.filtered(func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && !isOver(pod)
	})
}

// leaving are the pods that are being deleted.
func (s *subject) leaving() []*corev1.Pod {
	return s.filtered(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// hasEnough reports whether a gang has as many members on nodes as it needs; false for what is none.
func (s *subject) hasEnough() bool {
	if s.group == nil {
		return false
	}
	g := gang.FromPodGroup(s.group)
	return g.IsGang() && len(s.placed()) >= g.MinCount
}

func (s *subject) filtered(keep func(*corev1.Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range s.pods {
		if keep(pod) {
			out = append(out, pod)
		}
	}
	return out
}

func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// parseSubject reads POD, or KIND/NAME where kindNamed knows the kind.
func parseSubject(arg, namespace string) (*subject, error) {
	kind, name, slashed := strings.Cut(arg, "/")
	if !slashed {
		kind, name = "pod", arg
	}
	out := &subject{kind: kindNamed(kind), key: types.NamespacedName{Namespace: namespace, Name: name}}
	if out.kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, usage(fmt.Errorf("%q: ask about POD, job/NAME or podgroup/NAME", arg))
	}
	return out, nil
}

// kindNamed is the kind that a word means in any of the forms that kubectl takes: po, pods, job, jobs.batch, pg, podgroups.reprieve.dev,
// podgroups.v1alpha1.reprieve.dev and the like; "" for none that may be asked about.
func kindNamed(word string) string {
	resource, rest, _ := strings.Cut(strings.ToLower(word), ".")
	kind, of := "", schema.GroupVersion{}
	switch resource {
	case "pod", "pods", "po":
		kind, of = "Pod", corev1.SchemeGroupVersion
	case "job", "jobs":
		kind, of = "Job", batchv1.SchemeGroupVersion
	case "podgroup", "podgroups", "pg":
		kind, of = "PodGroup", v1alpha1.SchemeGroupVersion
	}
	if rest != "" && rest != of.Group && rest != of.Version+"."+of.Group {
		return ""
	}
	return kind
}

// find fills in what there is of a subject. It reports false where there is nothing of it.
func (s *subject) find(asked *question) (bool, error) {
	objects := asked.objects
	s.groups = asked.groups
	all, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return false, err
	}
	in := func(pod *corev1.Pod) bool { return pod.Namespace == s.key.Namespace }
	own := slices.DeleteFunc(slices.Clone(all), func(pod *corev1.Pod) bool { return !in(pod) || !s.has(pod) })
	s.pods = own
	group := s.key
	if s.kind != "PodGroup" {
		if len(own) == 0 {
			// A Job makes pods again after a while.
			_, exists := objects.Find(inventory.Jobs, s.key.Namespace, s.key.Name)
			return exists && s.kind == "Job", nil
		}
		var isMember bool
		if group, isMember = s.groups.GroupOf(own[0]); !isMember {
			return true, nil
		}
	}
	found, exists := objects.Find(inventory.PodGroups, group.Namespace, group.Name)
	if !exists {
		return len(own) > 0, nil
	}
	s.group = &v1alpha1.PodGroup{}
	if err := found.Into(s.group); err != nil {
		return false, err
	}
	if gang.FromPodGroup(s.group).IsGang() {
		// They are decided on together.
		s.pods = slices.DeleteFunc(all, func(pod *corev1.Pod) bool {
			key, ok := s.groups.GroupOf(pod)
			return !ok || key != group
		})
	}
	return true, nil
}

// has reports whether a pod of the namespace is a part of the subject.
func (s *subject) has(pod *corev1.Pod) bool {
	switch s.kind {
	case "Pod":
		return pod.Name == s.key.Name
	case "Job":
		return pod.Labels[batchv1.JobNameLabel] == s.key.Name || slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.Kind == "Job" && o.Name == s.key.Name
		})
	default:
		key, ok := s.groups.GroupOf(pod)
		return ok && key == s.key
	}
}

func podKey(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
