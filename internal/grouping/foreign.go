package grouping

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// words has the labels and annotations that pods use to name their group and queue for another
// scheduler.
type words struct {
	rules []*Rule
	// queue lists the labels and annotations that name the queue. Only the first one that a pod has
	// is used.
	queue []key
}

// key is the name of a label or an annotation.
type key struct {
	name       string
	annotation bool
}

func (k key) of(pod *corev1.Pod) string {
	if k.annotation {
		return pod.Annotations[k.name]
	}
	return pod.Labels[k.name]
}

func label(name string) key      { return key{name: name} }
func annotation(name string) key { return key{name: name, annotation: true} }

// foreign returns the words of another scheduler. scheduler is its name in the argument
// groups.labels.
func foreign(scheduler configv1alpha1.GroupLabels) words {
	switch scheduler {
	case configv1alpha1.LabelsCoscheduling:
		return words{rules: []*Rule{podGroupsOf("scheduling.x-k8s.io", "v1alpha1", "", "", label("scheduling.x-k8s.io/pod-group"))}}
	case configv1alpha1.LabelsVolcano:
		rule := podGroupsOf("scheduling.volcano.sh", "v1beta1", "spec.queue", "spec.priorityClassName",
			annotation("scheduling.k8s.io/group-name"), annotation("scheduling.volcano.sh/group-name"))
		rule.Refused = []ForbiddenField{{Set: "spec.networkTopology"}}
		return words{
			rules: []*Rule{rule},
			queue: []key{annotation("scheduling.volcano.sh/queue-name"), label("volcano.sh/queue-name"), annotation("volcano.sh/queue-name")},
		}
	case configv1alpha1.LabelsKAI:
		rule := podGroupsOf("scheduling.run.ai", "v2alpha2", "spec.queue", "spec.priorityClassName", annotation("pod-group-name"))
		// Without the total spec.minMember, each subgroup has its own minimum and may contain
		// further subgroups. Such groups are rejected.
		rule.Refused = []ForbiddenField{{Set: "spec.topologyConstraint"}, {Set: "spec.minSubGroup"}, {Set: "spec.subGroups", Unless: "spec.minMember"}}
		return words{
			rules: []*Rule{rule},
			queue: []key{label("kai.scheduler/queue")},
		}
	case configv1alpha1.LabelsKoordinator:
		return words{rules: []*Rule{
			// No object has the size of these gangs: each pod states the number of members. It uses
			// an annotation, or labels in earlier versions of Koordinator.
			podsThatCount("gang.scheduling.koordinator.sh", annotation("gang.scheduling.koordinator.sh/name"), annotation("gang.scheduling.koordinator.sh/min-available")),
			podsThatCount("pod-group.scheduling.sigs.k8s.io", label("pod-group.scheduling.sigs.k8s.io/name"), label("pod-group.scheduling.sigs.k8s.io/min-available")),
			podGroupsOf("scheduling.sigs.k8s.io", "v1alpha1", "", "", label("pod-group.scheduling.sigs.k8s.io")),
		}}
	default:
		return words{}
	}
}

// PodAnnotations returns the pod annotations that other schedulers and the rules of operators use
// to assign groups and queues. The result is unsorted.
func PodAnnotations() []string {
	var out []string
	add := func(keys ...key) {
		for _, k := range keys {
			if k.annotation {
				out = append(out, k.name)
			}
		}
	}
	for _, scheduler := range configv1alpha1.KnownLabels() {
		w := foreign(scheduler)
		add(w.queue...)
		for _, rule := range w.rules {
			add(rule.Names...)
			add(rule.Count)
		}
	}
	for _, rule := range BuiltIn() {
		for i := range rule.Roles {
			add(rule.Roles[i].Said)
		}
	}
	return out
}

// Annotations returns the annotations of pods and of their owners that determine groups and queues,
// without Reprieve's own annotations. The result is unsorted.
func Annotations() []string {
	out := PodAnnotations()
	add := func(path Path) {
		if names := path.names(); len(names) == 3 && names[0] == "metadata" && names[1] == "annotations" {
			out = append(out, names[2])
		}
	}
	for _, rule := range BuiltIn() {
		for i := range rule.Roles {
			role := &rule.Roles[i]
			add(role.Led.When)
			add(role.Led.Unless)
			for _, c := range role.AloneWhen {
				add(c.Path)
			}
		}
	}
	return out
}

// podGroupsOf returns the rule for PodGroups of another API. Pods name their PodGroup by any of the
// keys in names. Naming a PodGroup is a request for a gang.
func podGroupsOf(group, version string, queue, class Path, names ...key) *Rule {
	return &Rule{
		Kind: schema.GroupVersionKind{Group: group, Version: version, Kind: "PodGroup"}, Resource: "podgroups", Names: names, Asks: true,
		Queue: queue, PriorityClass: class, Roles: []Role{{Replicas: "spec.minMember", Default: 1, Floor: 1}},
	}
}

// podsThatCount returns the rule for gangs without an owner object. Each pod names its gang (key
// name) and the number of members that the gang needs (key count).
func podsThatCount(group string, name, count key) *Rule {
	return &Rule{Kind: schema.GroupVersionKind{Group: group, Kind: "gang"}, Names: []key{name}, Count: count, Asks: true}
}

// Understand adds the queue keys of other schedulers to the settings of a profile, and returns the
// settings. FromArgs has already added the group keys of these schedulers.
func (s *Settings) Understand(schedulers []configv1alpha1.GroupLabels) *Settings {
	for _, scheduler := range schedulers {
		s.queue = append(s.queue, foreign(scheduler).queue...)
	}
	return s
}

// WithoutGroups returns settings that recognize the same queue keys but derive no groups.
func (s *Settings) WithoutGroups() *Settings { return &Settings{queue: s.queue} }

// QueueOf returns the queue that a pod names by a key of another scheduler, if the pod's profile
// recognizes the key. It is empty for none.
func (r *Resolver) QueueOf(pod *corev1.Pod) string {
	if settings, ok := r.profiles[pod.Spec.SchedulerName]; ok {
		for _, k := range settings.queue {
			if name := k.of(pod); name != "" {
				return name
			}
		}
	}
	return ""
}

// nameIn returns the object name in the pod's labels or annotations. It is empty if the pod names
// no object of the rule.
func (r *Rule) nameIn(pod *corev1.Pod) string {
	if r.NameLabel != "" {
		return pod.Labels[r.NameLabel]
	}
	for _, k := range r.Names {
		if name := k.of(pod); name != "" {
			return name
		}
	}
	return ""
}

// isNamed reports whether pods name their object by a label or annotation. If they do not, owner
// references lead from pods to objects.
func (r *Rule) isNamed() bool { return r.NameLabel != "" || len(r.Names) > 0 }

// hasObjects is false for a rule whose gangs have no owner object and consist of pods only.
func (r *Rule) hasObjects() bool { return r.Count == key{} }

// countIn returns the number of gang members that a pod states. If the number is invalid, it
// returns the reason instead.
func (r *Rule) countIn(pod *corev1.Pod) (int64, string) {
	given := r.Count.of(pod)
	n, err := strconv.ParseInt(given, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Sprintf("%s is %q, and must be the number of members that the gang needs", r.Count.name, given)
	}
	return n, ""
}

// readIn returns the Reading of a gang without an owner object. The size comes from the first of
// the pods that states a valid number of members.
func (r *Rule) readIn(pods ...*corev1.Pod) Reading {
	out := Reading{Units: 1, Roles: []Size{{}}}
	for _, pod := range pods {
		count, flaw := r.countIn(pod)
		if flaw == "" {
			return Reading{Units: 1, Roles: []Size{{Count: count}}}
		}
		out.Flaw = cmp.Or(out.Flaw, flaw)
	}
	return out
}

// readPods updates the Reading of a gang without an owner object from its current pods. The size
// comes from the first pod with a valid number of members, in this order: running before waiting,
// then older before younger. Waiting pods that state a number other than the size are blocked.
func (r *Resolver) readPods(o *object) {
	var running, waiting []*corev1.Pod
	for _, pod := range r.podsBelow(o) {
		switch {
		case runs(pod):
			running = append(running, pod)
		case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
			waiting = append(waiting, pod)
		}
	}
	gang.SortByAge(running)
	gang.SortByAge(waiting)
	pods := slices.Concat(running, waiting)
	if next := o.rule.readIn(pods...); len(pods) > 0 && !reflect.DeepEqual(next, o.reading) {
		r.change([]*object{o}, func() { o.reading = next })
	}
}

// adopt records facts that are known only from pods: that a gang without an owner object exists, or
// the size of the pod's replica.
func (r *Resolver) adopt(pod *corev1.Pod, settings *Settings) {
	for _, rule := range settings.rules {
		name := rule.nameIn(pod)
		if name == "" || !rule.isNamed() {
			continue
		}
		switch {
		case !rule.hasObjects():
			r.adoptBy(rule, pod, name)
		case rule.UnitLabel != "":
			r.hear(rule, pod, name)
		}
		return
	}
}

func (r *Resolver) adoptBy(rule *Rule, pod *corev1.Pod, name string) {
	named := objectName{rule.Kind.GroupKind(), pod.Namespace, name}
	r.mu.RLock()
	_, known := r.byName[named]
	r.mu.RUnlock()
	if known {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.byName[named]; known {
		return
	}
	o := &object{
		objectName: named, gvk: rule.Kind, uid: types.UID(nameAnchor(rule, pod.Namespace, name)), rule: rule,
		reading: rule.readIn(pod), names: make(map[suffix]types.NamespacedName),
	}
	if inherited, ok := r.namespaces[o.namespace]; ok {
		o.plan = newPlan(o.rule, o.reading, o.choice, inherited, o.namespace, r.serves(o.kind))
	}
	r.objects[o.uid], r.byName[named] = o, o.uid
}

// disagrees returns the reason why a pod cannot join its gang without an owner object. It is empty
// if the pod can join, or has a node already.
func (o *object) disagrees(pod *corev1.Pod) string {
	if o.rule.hasObjects() || pod.Spec.NodeName != "" {
		return ""
	}
	count, flaw := o.rule.countIn(pod)
	if flaw == "" && o.reading.Flaw == "" && count != o.reading.Roles[0].Count {
		flaw = fmt.Sprintf("the pod has %s %d, and others have %d", o.rule.Count.name, count, o.reading.Roles[0].Count)
	}
	return flaw
}

// withForeign returns the choice with unset fields filled in from the fields of an object of
// another API.
func (r *Reading) withForeign(c Choice) Choice {
	if r.Whole {
		c.DefaultMode = string(v1alpha1.DisruptionModePodGroup)
	}
	c.Queue, c.PriorityClass = cmp.Or(c.Queue, r.Queue), cmp.Or(c.PriorityClass, r.PriorityClass)
	return c
}
