package app

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// subject is the work that a question is about: a pod, a group, or an object that owns pods.
type subject struct {
	// kind is the Kind of one of workKinds. key is the namespace and name of the object.
	kind string
	key  types.NamespacedName
	// rule is the grouping rule of the kind, and family has the objects that the rule finds. Both
	// are nil for a kind without a rule.
	rule   *grouping.Rule
	family *family
	// all has the groups of the subject: the subject itself, its PodGroups, or the PodGroup of a
	// pod. They may belong to reprieve.dev or to scheduling.k8s.io. A tree takes the place of its
	// PodGroups, in the form of [gang.AsPodGroup].
	all []*v1alpha1.PodGroup
	// group is the group that the question is about. This is the only group that waits. If no group
	// waits, it is the only group of the subject. If there are several such groups, it is nil.
	group *v1alpha1.PodGroup
	// waiting lists the parts of the subject that wait, by kind and name, if there are several.
	// Each part gets its own decision.
	waiting []string
	// pods has all pods of the subject. For a pod of a gang, it has all pods of the gang.
	pods []*corev1.Pod
	// podGroups maps pods to PodGroups. trees maps PodGroups to their trees. groups combines the
	// two: it maps pods to the groups that are placed as a unit.
	groups, podGroups gang.Membership
	trees             *gang.Trees
	// units has the groups that the subject may be evicted with, if the subject is part of a tree.
	units sets.Set[types.NamespacedName]
}

// name returns the name of the subject for messages, such as "pod default/web".
func (s *subject) name() string { return strings.ToLower(s.kind) + " " + s.key.String() }

// pending returns the pods that wait for a node. Pods without scheduling gates come first, because
// decisions for the whole work use the first pod, and no decision is possible for a gated pod.
func (s *subject) pending() []*corev1.Pod {
	waits := func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !isOver(pod)
	}
	free := s.filtered(func(pod *corev1.Pod) bool { return waits(pod) && !isGated(pod) })
	return append(free, s.filtered(func(pod *corev1.Pod) bool { return waits(pod) && isGated(pod) })...)
}

// gated returns the number of pending pods with a scheduling gate.
func (s *subject) gated() (count int) {
	for _, pod := range s.pending() {
		if isGated(pod) {
			count++
		}
	}
	return count
}

// heldByGate reports whether the question is about one pod with a scheduling gate. If so,
// heldByGate changes the message of step: the gate comes first, and the decision about the rest of
// the gang follows.
func (s *subject) heldByGate(step *whatif.Step) bool {
	if s.kind != "Pod" {
		return false
	}
	at := slices.IndexFunc(s.pods, func(pod *corev1.Pod) bool { return podKey(pod) == s.key && isGated(pod) })
	if at < 0 || step.Outcome == whatif.Held {
		return at >= 0
	}
	message := fmt.Sprintf("scheduling gate %q has not been lifted; without it: %s", s.pods[at].Spec.SchedulingGates[0].Name, step.Message)
	*step = whatif.Step{Pods: []string{s.key.Name}, Outcome: whatif.Held, Reason: v1alpha1.ReasonUnschedulable, Message: message}
	return true
}

func isGated(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

// placed returns the pods that have a node, have not finished and are not terminating.
func (s *subject) placed() []*corev1.Pod {
	return s.filtered(func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && !isOver(pod)
	})
}

// leaving returns the pods that are being deleted.
func (s *subject) leaving() []*corev1.Pod {
	return s.filtered(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// isGang reports whether the question is about a gang, which gets one decision for all its pods.
func (s *subject) isGang() bool { return s.group != nil && s.model(s.group).IsGang() }

// hasEnough reports whether a gang has as many members on nodes as it needs. For other work, it
// returns false.
func (s *subject) hasEnough() bool {
	if !s.isGang() {
		return false
	}
	members := s.filtered(func(pod *corev1.Pod) bool {
		key, ok := s.groups.GroupOf(pod)
		return ok && key == keyOf(s.group) && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && !isOver(pod)
	})
	return s.model(s.group).IsPlaced(&gang.Members{Assigned: members})
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

// parseSubject returns the subject that an argument names, as POD or KIND/NAME. See kindNamed for
// the kinds.
func parseSubject(arg, namespace string) (*subject, error) {
	word, name, slashed := strings.Cut(arg, "/")
	if !slashed {
		word, name = "pod", arg
	}
	kind, known := kindNamed(word)
	if !known || name == "" || strings.Contains(name, "/") {
		instead := ""
		if !known {
			instead = meantKind(word)
		}
		return nil, usage(fmt.Errorf("%q: ask about POD or KIND/NAME, with the kind %s%s", arg, kindsInWords(), instead))
	}
	return &subject{kind: kind.Kind, rule: kind.rule, key: types.NamespacedName{Namespace: namespace, Name: name}}, nil
}

// find fills in the fields of the subject from the objects of a question. It returns false if the
// subject does not exist.
func (s *subject) find(asked *question) (bool, error) {
	objects := asked.objects
	s.groups, s.podGroups, s.trees = asked.workloads(), asked.groups, asked.trees
	if s.rule != nil {
		var err error
		if s.family, err = familyOf(objects, s.rule, s.key); err != nil {
			return false, err
		}
	}
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return false, err
	}
	if err := s.findGroups(objects, pods); err != nil {
		return false, err
	}
	gangs := sets.New[types.NamespacedName]()
	for _, pg := range s.all {
		if s.model(pg).IsGang() {
			// A gang gets one decision, so s.pods has all members of the gang.
			gangs.Insert(keyOf(pg))
		}
	}
	s.pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		if key, ok := s.groups.GroupOf(pod); ok && gangs.Has(key) {
			return false
		}
		return !s.isOwn(pod)
	})
	s.narrow()
	if len(s.pods) > 0 || len(s.all) > 0 {
		return true, nil
	}
	return s.existsAlone(objects)
}

// existsAlone reports whether the object of the subject exists. An object without pods may still
// create pods.
func (s *subject) existsAlone(objects *inventory.Inventory) (bool, error) {
	if s.rule == nil {
		stored := map[string]string{kindJob: inventory.Jobs, kindPodGroup: inventory.PodGroups, kindComposite: inventory.Composites}[s.kind]
		_, exists := objects.Find(stored, s.key.Namespace, s.key.Name)
		return exists && stored != "", nil
	}
	if _, exists := objects.Find(s.family.storedAs(), s.key.Namespace, s.key.Name); exists {
		return true, nil
	}
	if why := s.family.unread(objects); why != "" {
		return false, notFound(fmt.Errorf("nothing tells of %s: %s", s.name(), why))
	}
	return false, nil
}

// findGroups fills in s.all and s.units. The groups in s.all are the groups of the subject's pods,
// and the groups that belong to the subject (see owns). A tree takes the place of its PodGroups.
func (s *subject) findGroups(objects *inventory.Inventory, pods []*corev1.Pod) error {
	keys := sets.New[types.NamespacedName]()
	for _, pod := range pods {
		if !s.isOwn(pod) {
			continue
		}
		if key, ok := s.groups.GroupOf(pod); ok {
			keys.Insert(key)
		}
	}
	all, err := podGroups(objects)
	if err != nil {
		return err
	}
	s.findUnits(pods)
	for _, pg := range all {
		if s.owns(pg) {
			keys = keys.Union(s.workloadsOf(keyOf(pg)))
		}
	}
	s.all = slices.DeleteFunc(all, func(pg *v1alpha1.PodGroup) bool { return !keys.Has(keyOf(pg)) })
	s.all = append(s.all, s.missingTrees(keys)...)
	return nil
}

// podGroups returns the PodGroups of reprieve.dev and scheduling.k8s.io in an inventory. It also
// returns the CompositePodGroups, converted to PodGroups.
func podGroups(objects *inventory.Inventory) ([]*v1alpha1.PodGroup, error) {
	all, err := ownGroups(objects)
	if err != nil {
		return nil, err
	}
	theirs, err := inventory.Decode[*unstructured.Unstructured](objects, inventory.NativePodGroups)
	for _, object := range theirs {
		pg := native.FromObject(object)
		pg.OwnerReferences = object.GetOwnerReferences()
		all = append(all, pg)
	}
	return all, err
}

// owns reports whether a PodGroup is the subject, or belongs to the subject.
func (s *subject) owns(pg *v1alpha1.PodGroup) bool {
	switch {
	case s.family != nil:
		return s.family.owns(pg.Namespace, pg.OwnerReferences)
	case s.kind == kindJob:
		return (s.key.Namespace == "" || s.key.Namespace == pg.Namespace) && slices.ContainsFunc(pg.OwnerReferences, s.isOwner)
	default:
		return s.isGroup() && s.groupKey() == keyOf(pg)
	}
}

// isOwner reports whether the subject is the Job that an owner reference names.
func (s *subject) isOwner(o metav1.OwnerReference) bool {
	return o.Kind == kindJob && o.Name == s.key.Name
}

// narrow sets group and waiting. A question is about waiting work, so narrow selects the only group
// that waits, or lists the parts that wait if there are several.
func (s *subject) narrow() {
	s.group, s.waiting = nil, nil
	var groups []*v1alpha1.PodGroup
	seen := sets.New[types.NamespacedName]()
	for _, pod := range s.pending() {
		// Take the first pod to represent all, because pods without a gang get decisions one by
		// one.
		group, part, key := s.groupOf(pod), "pod/"+pod.Name, types.NamespacedName{}
		if group != nil {
			key = keyOf(group)
			part = partName(key)
		}
		if !seen.Has(key) {
			seen.Insert(key)
			groups, s.waiting = append(groups, group), append(s.waiting, part)
		}
	}
	switch {
	case len(groups) == 1:
		s.group, s.waiting = groups[0], nil
	case len(groups) == 0 && len(s.all) == 1:
		s.group = s.all[0]
	}
}

// groupOf returns the PodGroup of a pod; nil for a pod without one.
func (s *subject) groupOf(pod *corev1.Pod) *v1alpha1.PodGroup {
	key, ok := s.groups.GroupOf(pod)
	if i := slices.IndexFunc(s.all, func(pg *v1alpha1.PodGroup) bool { return keyOf(pg) == key }); ok && i >= 0 {
		return s.all[i]
	}
	return nil
}

// asOne returns an error if several parts of the subject wait. Commands call it if they can answer
// about one part only.
func (s *subject) asOne() error {
	if len(s.waiting) == 0 {
		return nil
	}
	named, more := s.waiting, ""
	if len(named) > fewShown {
		named, more = named[:fewShown], fmt.Sprintf(" and %d more", len(named)-fewShown)
	}
	return usage(fmt.Errorf("%d parts of %s wait, and each is decided on by itself: ask about one of %s%s", len(s.waiting), s.name(), strings.Join(named, ", "), more))
}

// isOwn reports whether a pod belongs to the subject. It does not consider other members of the
// pod's gang.
func (s *subject) isOwn(pod *corev1.Pod) bool {
	return pod.Namespace == s.key.Namespace && s.has(pod)
}

// has reports whether a pod in the subject's namespace belongs to the subject. Unlike isOwn, it
// does not check the namespace.
func (s *subject) has(pod *corev1.Pod) bool {
	switch {
	case s.family != nil:
		return s.family.has(pod)
	case s.kind == "Pod":
		return pod.Name == s.key.Name
	case s.kind == kindJob:
		return pod.Labels[batchv1.JobNameLabel] == s.key.Name || slices.ContainsFunc(pod.OwnerReferences, s.isOwner)
	default:
		key, ok := s.podGroups.GroupOf(pod)
		return ok && s.isPartOf(key)
	}
}

func keyOf(pg *v1alpha1.PodGroup) types.NamespacedName {
	return types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
}

func podKey(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
