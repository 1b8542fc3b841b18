package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// Mistake is a probable error in an object. Examples are a label or annotation that Reprieve does
// not read, and the name of a queue that does not exist. See [Mistake.Kind].
type Mistake struct {
	// Object is the kind and the name of the object, such as "pod default/train-0".
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	// Kind is one of UnknownLabel, UnknownAnnotation, InvalidAnnotation, UnknownQueue,
	// UnknownPriorityClass, UnknownPodGroup, UnknownResource and UnknownTopologyKey.
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Linter finds probable errors in objects. It checks that the cluster has the queues,
// PriorityClasses, PodGroups, resources and node labels that an object names. It also checks that
// Reprieve reads the object's labels and annotations of reprieve.dev.
type Linter struct {
	queues, classes, resources []string
	// nodeLabels has the keys of all node labels.
	nodeLabels []string
	groups     map[string][]string
	queueLabel string
}

// NewLinter returns a Linter for the objects of an inventory. queueLabel is the pod label that
// names the queue.
func NewLinter(objects *inventory.Inventory, queueLabel string) (*Linter, error) {
	l := &Linter{queueLabel: queueLabel, groups: make(map[string][]string)}
	for _, o := range objects.Objects(inventory.Queues) {
		l.queues = append(l.queues, o.Name)
	}
	for _, o := range objects.Objects(inventory.PriorityClasses) {
		l.classes = append(l.classes, o.Name)
	}
	for _, resource := range []string{inventory.PodGroups, inventory.NativePodGroups} {
		for _, o := range objects.Objects(resource) {
			l.groups[o.Namespace] = append(l.groups[o.Namespace], o.Name)
		}
	}
	nodes, err := inventory.Decode[*corev1.Node](objects, inventory.Nodes)
	if err != nil {
		return nil, err
	}
	had, labels := make(map[string]bool), make(map[string]bool)
	for _, node := range nodes {
		for key, value := range node.Labels {
			if value != "" {
				labels[key] = true
			}
		}
		for name := range node.Status.Allocatable {
			had[string(name)] = true
		}
	}
	classes, err := inventory.Decode[*resourcev1.DeviceClass](objects, "deviceclasses")
	if err != nil {
		return nil, err
	}
	for _, class := range classes {
		// Add the resources that DeviceClasses provide, because nodes do not list them. Each
		// DeviceClass has a default resource name, and may have a second name.
		had[resourcev1.ResourceDeviceClassPrefix+class.Name] = true
		if class.Spec.ExtendedResourceName != nil {
			had[*class.Spec.ExtendedResourceName] = true
		}
	}
	l.resources, l.nodeLabels = slices.Sorted(maps.Keys(had)), slices.Sorted(maps.Keys(labels))
	return l, nil
}

// mistakes collects the probable errors in one object.
type mistakes struct {
	object, namespace string
	found             []Mistake
}

func (m *mistakes) add(kind, format string, args ...any) {
	m.found = append(m.found, Mistake{Object: m.object, Namespace: m.namespace, Kind: kind, Message: fmt.Sprintf(format, args...)})
}

// instead returns a question that proposes the most similar candidate. It is empty if no candidate
// is similar.
func instead(word string, candidates []string) string {
	if near := Nearest(word, candidates); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// Object returns the probable errors in the labels and annotations of an object other than a pod or
// PodGroup. Annotations about lost work have no effect on such an object, so Object reports them.
func (l *Linter) Object(name string, of metav1.Object) []Mistake {
	m := &mistakes{object: name, namespace: of.GetNamespace(), found: l.NativePodGroup(name, of)}
	for _, key := range gang.ProgressKeys() {
		if _, ok := of.GetAnnotations()[key]; ok {
			m.add("UnknownAnnotation", "nothing reads the annotation %s here; set it in the pod template, on a pod or on a PodGroup", key)
		}
	}
	sortMistakes(m.found)
	return m.found
}

// NativePodGroup returns the probable errors in the labels and annotations of a PodGroup of
// scheduling.k8s.io.
func (l *Linter) NativePodGroup(name string, of metav1.Object) []Mistake {
	return l.meta(name, of, v1alpha1.LabelQueue)
}

// meta returns the probable errors in labels and annotations. queueLabel is the label that names
// the object's queue.
func (l *Linter) meta(name string, of metav1.Object, queueLabel string) []Mistake {
	m := &mistakes{object: name, namespace: of.GetNamespace()}
	for kind, keys := range map[string]map[string]string{"label": of.GetLabels(), "annotation": of.GetAnnotations()} {
		for _, key := range controller.UnreadKeys(keys, kind == "annotation", queueLabel) {
			m.add("Unknown"+strings.ToUpper(kind[:1])+kind[1:], "nothing reads the %s %s%s", kind, key, instead(key, controller.KnownKeys(kind == "annotation", queueLabel)))
		}
	}
	for _, mistake := range controller.InvalidAnnotations(of.GetAnnotations()) {
		m.add("InvalidAnnotation", "%s", mistake)
	}
	l.topology(m, topologyKeysIn(of.GetAnnotations())...)
	l.queue(m, cmp.Or(of.GetLabels()[queueLabel], of.GetAnnotations()[v1alpha1.AnnotationQueue]))
	l.class(m, of.GetAnnotations()[v1alpha1.AnnotationPriorityClass])
	sortMistakes(m.found)
	return m.found
}

func (l *Linter) queue(m *mistakes, name string) {
	if name != "" && !slices.Contains(l.queues, name) {
		m.add("UnknownQueue", "Queue %q does not exist%s", name, instead(name, l.queues))
	}
}

// topology adds an error for each topology key that is not a label of any node. If there are no
// nodes, it adds none.
func (l *Linter) topology(m *mistakes, keys ...string) {
	for _, key := range keys {
		if key != "" && len(l.nodeLabels) > 0 && !slices.Contains(l.nodeLabels, key) {
			m.add("UnknownTopologyKey", "no node has a value of the label %s%s", key, instead(key, l.nodeLabels))
		}
	}
}

func topologyKeysIn(annotations map[string]string) []string {
	keys := strings.Split(annotations[v1alpha1.AnnotationPreferredTopologyKey], ",")
	for i := range keys {
		keys[i] = strings.TrimSpace(keys[i])
	}
	return append(keys, annotations[v1alpha1.AnnotationTopologyKey])
}

func (l *Linter) class(m *mistakes, name string) {
	if name != "" && !slices.Contains(l.classes, name) && !strings.HasPrefix(name, "system-") {
		m.add("UnknownPriorityClass", "PriorityClass %q does not exist%s", name, instead(name, l.classes))
	}
}

// Pod returns the probable errors in a pod or in a pod template.
func (l *Linter) Pod(name string, pod *corev1.Pod) []Mistake {
	m := &mistakes{object: name, namespace: pod.Namespace, found: l.meta(name, pod, l.queueLabel)}
	if group := pod.Labels[v1alpha1.LabelPodGroup]; group != "" && !slices.Contains(l.groups[pod.Namespace], group) {
		m.add("UnknownPodGroup", "PodGroup %q does not exist in namespace %s%s", group, pod.Namespace, instead(group, l.groups[pod.Namespace]))
	}
	l.class(m, pod.Spec.PriorityClassName)
	for _, resource := range sortedNames(requestsOf(pod)) {
		if requested := requestsOf(pod)[resource]; len(l.resources) > 0 && !requested.IsZero() && !slices.Contains(l.resources, string(resource)) {
			m.add("UnknownResource", "no node has %s%s", resource, instead(string(resource), l.resources))
		}
	}
	return m.found
}

// PodGroup returns the probable errors in a PodGroup of reprieve.dev.
func (l *Linter) PodGroup(name string, pg *v1alpha1.PodGroup) []Mistake {
	m := &mistakes{object: name, namespace: pg.Namespace, found: l.NativePodGroup(name, pg)}
	if pg.Spec.QueueName != nil {
		l.queue(m, *pg.Spec.QueueName)
	}
	if pg.Spec.PriorityClassName != nil {
		l.class(m, *pg.Spec.PriorityClassName)
	}
	l.topology(m, append(pg.Spec.PreferredKeys(), pg.Spec.TopologyKey())...)
	return m.found
}

// Lint returns the probable errors in all objects of an inventory that Reprieve schedules or reads.
// If several pods of one owner have the same error, it names the first pod and the number of other
// pods.
func Lint(objects *inventory.Inventory, queueLabel string, profiles []string) ([]Mistake, error) {
	l, err := NewLinter(objects, queueLabel)
	if err != nil {
		return nil, err
	}
	out, err := l.lintPods(objects, profiles)
	if err != nil {
		return nil, err
	}
	groups, err := inventory.Decode[*v1alpha1.PodGroup](objects, inventory.PodGroups)
	if err != nil {
		return nil, err
	}
	for _, pg := range groups {
		out = append(out, l.PodGroup("podgroup "+pg.Namespace+"/"+pg.Name, pg)...)
	}
	for _, o := range objects.Objects(inventory.NativePodGroups) {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(o.Raw); err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", o.Namespace, o.Name, err)
		}
		out = append(out, l.NativePodGroup("podgroup "+o.Namespace+"/"+o.Name, u)...)
	}
	roots, _ := objects.Roots()
	for i := range roots {
		for _, o := range objects.Objects(inventory.RootName(roots[i].GroupVersionResource())) {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(o.Raw); err != nil {
				return nil, fmt.Errorf("read %s/%s: %w", o.Namespace, o.Name, err)
			}
			out = append(out, l.Object(strings.ToLower(roots[i].Kind)+" "+o.Namespace+"/"+o.Name, u)...)
		}
	}
	namespaces, err := inventory.Decode[*corev1.Namespace](objects, "namespaces")
	if err != nil {
		return nil, err
	}
	for _, ns := range namespaces {
		out = append(out, l.Object("namespace "+ns.Name, ns)...)
	}
	more, err := l.lintClasses(objects)
	out = append(out, more...)
	sortMistakes(out)
	return out, err
}

// lintPods checks the pods of the profiles, except finished pods.
func (l *Linter) lintPods(objects *inventory.Inventory, profiles []string) ([]Mistake, error) {
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	type same struct{ owner, message string }
	at, more := make(map[same]int), make(map[int]int)
	var out []Mistake
	for _, pod := range pods {
		if hasFinished(pod) || !slices.Contains(profiles, pod.Spec.SchedulerName) {
			continue
		}
		for _, m := range l.Pod("pod "+pod.Namespace+"/"+pod.Name, pod) {
			owner := metav1.GetControllerOfNoCopy(pod)
			if owner == nil {
				out = append(out, m)
				continue
			}
			key := same{string(owner.UID), m.Message}
			if i, known := at[key]; known {
				more[i]++
				continue
			}
			at[key] = len(out)
			out = append(out, m)
		}
	}
	for i, n := range more {
		out[i].Object += fmt.Sprintf(" and %d more of its owner", n)
	}
	return out, nil
}

// lintClasses checks the labels and annotations of all PriorityClasses.
func (l *Linter) lintClasses(objects *inventory.Inventory) ([]Mistake, error) {
	classes, err := inventory.Decode[*schedulingv1.PriorityClass](objects, inventory.PriorityClasses)
	if err != nil {
		return nil, err
	}
	var out []Mistake
	for _, class := range classes {
		out = append(out, l.Object("priorityclass "+class.Name, class)...)
	}
	return out, nil
}

func sortMistakes(all []Mistake) {
	slices.SortStableFunc(all, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Message, b.Message))
	})
}
