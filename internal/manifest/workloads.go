package manifest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// Workload is a set of submitted pods under one name. The pods of a gang are placed together; other
// pods are placed one by one.
type Workload struct {
	// Kind, Namespace and Name identify the submitted object. If the pods name a PodGroup, they
	// identify the PodGroup instead. If the PodGroup is part of a tree that is placed together,
	// they identify the CompositePodGroup.
	Kind, Namespace, Name string
	// Part distinguishes several gangs that are derived from one object: it has the replica, the
	// role, or both. It is empty if the object has one gang.
	Part string
	// Gang is true if the pods are placed together or not at all.
	Gang bool
	// Pods are the pods with the defaults of the API server.
	Pods []*corev1.Pod
}

// Turns returns the number of decisions that are needed to place the pods: 1 for a gang, otherwise
// 1 for each pod.
func (w *Workload) Turns() int {
	if w.Gang && len(w.Pods) > 0 {
		return 1
	}
	return len(w.Pods)
}

// Variation overrides parts of the submitted objects. The zero value changes nothing.
type Variation struct {
	// Namespace is the namespace of objects that have none.
	Namespace string
	// Priority is a number or the name of a PriorityClass. If it is empty, the objects keep their
	// priorities.
	Priority string
	// Queue is the name of a leaf queue. If it is empty, the objects keep their queues. QueueLabel
	// is the pod label that names the queue.
	Queue, QueueLabel string
	// Replicas is the number of replicas for each controller, or for each of its roles. If it is
	// nil, the objects keep their numbers.
	Replicas *int32
}

// Submission is the result of [Submit].
type Submission struct {
	// Workloads has the workloads in the order of submission.
	Workloads []Workload
	// Objects is the inventory with all submitted objects except the pods.
	Objects *inventory.Inventory
	// Ignored lists the objects that no decision depends on. Unknown lists the objects whose pods
	// this package does not know, each with the reason.
	Ignored, Unknown []string
}

// Submit adds the documents' objects to an inventory, as the API server and the controllers would.
// cfg is the scheduler's configuration; it determines which groups are derived.
func Submit(ctx context.Context, to *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, documents []Document, vary Variation) (*Submission, error) {
	s := &submitting{inventory: to, vary: vary, roots: &roots{}}
	if err := s.roots.read(to, cfg); err != nil {
		return nil, err
	}
	out := &Submission{}
	var madeOf []Document
	for i := range documents {
		d := &documents[i]
		if d.Meta.GetNamespace() == "" && isNamespaced(d.Kind) {
			d.Meta.SetNamespace(vary.Namespace)
		}
		kept, err := s.keep(d)
		if err != nil {
			return nil, err
		}
		if !kept {
			madeOf = append(madeOf, *d)
		}
	}
	if err := s.fillIn(ctx); err != nil {
		return nil, err
	}
	made, err := s.makePods(out, madeOf)
	if err != nil {
		return nil, err
	}
	if vary.Replicas != nil && !slices.ContainsFunc(made, func(m podsMade) bool { return m.of.Kind != "Pod" }) {
		return nil, &Error{File: documents[0].File, Line: documents[0].Line, Reason: "--replicas is for what makes pods (a Job, a Deployment), and there is none"}
	}
	if err := s.group(ctx, cfg, made); err != nil {
		return nil, err
	}
	if s.trees, _, err = derived.Trees(s.inventory, s.derived); err != nil {
		return nil, err
	}
	for i := range made {
		if err := s.add(out, &made[i]); err != nil {
			return nil, err
		}
	}
	out.Objects = s.inventory
	return out, nil
}

// podsMade has the pods of one document.
type podsMade struct {
	of   *Document
	pods []*corev1.Pod
}

// makePods creates the pods of the documents, with the defaults of the API server. It adds root
// objects to the inventory, because they determine the groups. It lists documents without pods in
// Ignored or Unknown.
func (s *submitting) makePods(out *Submission, documents []Document) ([]podsMade, error) {
	var all []podsMade
	for i := range documents {
		d := &documents[i]
		if err := errors.Join(setDefaults(d), setReplicas(d, s.vary.Replicas)); err != nil {
			return nil, err
		}
		owner, err := s.root(d)
		if err != nil {
			return nil, err
		}
		pods, made, err := podsOf(d, owner)
		switch {
		case err != nil:
			return nil, err
		case !made && (s.roots.has(d) || untold(d) != ""):
			out.Unknown = append(out.Unknown, d.Kind+"/"+d.Meta.GetName()+": "+cmp.Or(untold(d), "which pods it makes is not known here"))
			continue
		case !made:
			out.Ignored = append(out.Ignored, d.Kind+"/"+d.Meta.GetName())
			continue
		}
		if err := s.between(d); err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if err := s.admit(d, pod); err != nil {
				return nil, err
			}
		}
		all = append(all, podsMade{d, pods})
	}
	return all, nil
}

func isNamespaced(kind string) bool {
	return !slices.Contains([]string{"PriorityClass", "Queue", "Namespace", "Node", "PersistentVolume", "StorageClass"}, kind)
}

// uidOf generates a UID for an object that does not exist yet. The same arguments always result in
// the same UID.
func uidOf(kind, namespace, name string) types.UID {
	return types.UID("plan:" + strings.ToLower(kind) + ":" + namespace + "/" + name)
}

// submitting is the state of a call of Submit.
type submitting struct {
	inventory *inventory.Inventory
	vary      Variation
	filler    *controller.Filler
	// groups has the documents with PodGroups.
	groups []Document
	// composites has the documents with CompositePodGroups.
	composites []Document
	// templates has the documents with Workloads.
	templates []Document
	// roots has the kinds of root objects. derived has the derived groups of the pods.
	roots   *roots
	derived *derived.Groups
	// trees maps PodGroups to the CompositePodGroups that they are placed with.
	trees *gang.Trees
}

// keep stores an object that creates no pods but that the scheduler reads. PodGroups,
// CompositePodGroups and Workloads are stored for fillIn, others in the inventory. It returns false
// for all other objects.
func (s *submitting) keep(d *Document) (bool, error) {
	var resource string
	switch object := d.Object.(type) {
	case *v1alpha1.PodGroup:
		s.groups = append(s.groups, *d)
		return true, nil
	case *v1alpha1.CompositePodGroup:
		s.composites = append(s.composites, *d)
		return true, nil
	case *v1alpha1.Workload:
		s.templates = append(s.templates, *d)
		return true, nil
	case *unstructured.Unstructured:
		if object.GroupVersionKind().Group != native.Group || object.GetKind() != "PodGroup" {
			return false, nil
		}
		resource = inventory.NativePodGroups
	default:
		for _, kind := range inventory.Kinds() {
			if gvk := d.Object.GetObjectKind().GroupVersionKind(); gvk == kind.GroupVersionKind() && gvk.Kind != "Pod" {
				resource = inventory.NameOf(kind.GroupVersionResource)
			}
		}
		// Objects of these kinds create pods, so makePods handles them.
		if resource == "" || slices.Contains([]string{"replicasets", "statefulsets", "replicationcontrollers", inventory.Jobs}, resource) {
			return false, nil
		}
	}
	return true, s.put(resource, d)
}

// put adds an object to the inventory. It replaces an object of the same name and keeps that
// object's UID.
func (s *submitting) put(resource string, d *Document) error {
	d.Meta.SetUID(uidOf(d.Kind, d.Meta.GetNamespace(), d.Meta.GetName()))
	d.Meta.SetCreationTimestamp(metav1.NewTime(s.inventory.Taken))
	d.Meta.SetGeneration(1)
	if before, ok := s.inventory.Find(resource, d.Meta.GetNamespace(), d.Meta.GetName()); ok {
		d.Meta.SetUID(before.UID)
	}
	next, err := s.inventory.With(inventory.Change{Resource: resource, Object: d.Meta})
	if err != nil {
		return d.fault("%v", err)
	}
	s.inventory = next
	return nil
}

// fillIn sets the priorities of Workloads and PodGroups. The inventory must have all
// PriorityClasses.
func (s *submitting) fillIn(ctx context.Context) error {
	filler, err := derived.NewFiller(func() *inventory.Inventory { return s.inventory })
	if err != nil {
		return err
	}
	s.filler = filler
	for i := range s.templates {
		d := &s.templates[i]
		if w, ok := d.Object.(*v1alpha1.Workload); ok {
			for j := range w.Spec.PodGroupTemplates {
				if _, err := s.filler.FillTemplate(&w.Spec.PodGroupTemplates[j]); err != nil {
					return d.fault("%v", err)
				}
			}
		}
		if err := s.put(inventory.Workloads, d); err != nil {
			return err
		}
	}
	for i := range s.composites {
		if err := s.fillInComposite(ctx, &s.composites[i]); err != nil {
			return err
		}
	}
	for i := range s.groups {
		if err := s.fillInGroup(ctx, &s.groups[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *submitting) fillInGroup(ctx context.Context, d *Document) error {
	pg, ok := d.Object.(*v1alpha1.PodGroup)
	if !ok {
		return d.fault("it is a %T", d.Object)
	}
	if before, ok := s.inventory.Find(inventory.PodGroups, pg.Namespace, pg.Name); ok {
		var old v1alpha1.PodGroup
		if err := before.Into(&old); err != nil {
			return d.fault("%v", err)
		}
		pg.Status = old.Status
	}
	if s.vary.Queue != "" {
		pg.Spec.QueueName = &s.vary.Queue
	}
	if err := s.prioritize(ctx, d, pg); err != nil {
		return err
	}
	return s.put(inventory.PodGroups, d)
}

// prioritize sets the priority of a group. It is the priority of the Variation if there is one, and
// otherwise the priority that the group requests.
func (s *submitting) prioritize(ctx context.Context, d *Document, pg *v1alpha1.PodGroup) error {
	if s.vary.Priority != "" {
		pg.Spec.Priority, pg.Spec.PreemptionPolicy, pg.Spec.PriorityClassName = nil, nil, &s.vary.Priority
		if value, err := strconv.ParseInt(s.vary.Priority, 10, 32); err == nil {
			pg.Spec.Priority, pg.Spec.PriorityClassName = ptr.To(int32(value)), nil
			pg.Spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
		}
	}
	lacks, err := s.filler.Fill(ctx, pg)
	switch {
	case err != nil:
		return d.fault("%v", err)
	case lacks != (gang.Verdict{}):
		return d.fault("%s", lacks.Message)
	}
	return nil
}

// add adds each pod of a document to its workload, which is the pod's gang or the document's
// object.
func (s *submitting) add(to *Submission, made *podsMade) error {
	for _, pod := range made.pods {
		w, err := s.workloadOf(made.of, pod)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(to.Workloads, func(o Workload) bool {
			return o.Kind == w.Kind && o.Namespace == w.Namespace && o.Name == w.Name && o.Part == w.Part && o.Gang == w.Gang
		})
		if at < 0 {
			at = len(to.Workloads)
			to.Workloads = append(to.Workloads, w)
		}
		if slices.ContainsFunc(to.Workloads[at].Pods, func(o *corev1.Pod) bool { return o.Name == pod.Name }) {
			return made.of.fault("pod %s/%s is there twice", pod.Namespace, pod.Name)
		}
		to.Workloads[at].Pods = append(to.Workloads[at].Pods, pod)
	}
	return nil
}

// workloadOf returns the workload of a pod, with an empty list of pods.
func (s *submitting) workloadOf(d *Document, pod *corev1.Pod) (Workload, error) {
	if key, ok := gang.GroupOf(pod); ok {
		if tree, ok := gang.CompositeOf(s.trees.WorkloadOf(key)); ok {
			return Workload{Kind: KindTree, Namespace: tree.Namespace, Name: tree.Name, Gang: true}, nil
		}
		isGang, err := s.isGang(key)
		if err != nil {
			return Workload{}, d.fault("%v", err)
		}
		return Workload{Kind: "PodGroup", Namespace: key.Namespace, Name: key.Name, Gang: isGang}, nil
	}
	w := Workload{Kind: d.Kind, Namespace: pod.Namespace, Name: d.Meta.GetName()}
	if key, ok := s.derived.GroupOf(pod); ok {
		if g, ok := s.derived.Group(key); ok {
			w.Part, w.Gang = g.Part, true
			if g.Parent.Name != "" {
				// All parts of the object are placed together.
				w.Part = ""
			}
		}
	}
	return w, nil
}

// isGang reports whether the members of a group are placed together. For a group that does not
// exist, it returns true, because the scheduler blocks its pods until the group exists.
func (s *submitting) isGang(key types.NamespacedName) (bool, error) {
	if object, ok := s.inventory.Find(inventory.PodGroups, key.Namespace, key.Name); ok {
		var pg v1alpha1.PodGroup
		err := object.Into(&pg)
		return gang.FromPodGroup(&pg).IsGang(), err
	}
	if object, ok := s.inventory.Find(inventory.NativePodGroups, key.Namespace, key.Name); ok {
		u := &unstructured.Unstructured{}
		err := u.UnmarshalJSON(object.Raw)
		return err == nil && gang.FromPodGroup(native.FromObject(u)).IsGang(), err
	}
	return true, nil
}

// admit sets the fields of a pod that the API server sets. It returns an error if the pod has no
// containers, its namespace or PriorityClass does not exist, or a pod of this name exists.
func (s *submitting) admit(d *Document, pod *corev1.Pod) error {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if pod.Namespace == "" {
		pod.Namespace = s.vary.Namespace
	}
	switch {
	case len(pod.Spec.Containers) == 0:
		return d.fault("spec.containers is empty")
	case len(s.inventory.Objects("namespaces")) > 0 && !s.has("namespaces", "", pod.Namespace):
		return d.fault("namespace %q does not exist", pod.Namespace)
	case s.has(inventory.Pods, pod.Namespace, pod.Name):
		return d.fault("pod %s/%s exists already; ask about it with: kubectl reprieve why %s -n %s", pod.Namespace, pod.Name, pod.Name, pod.Namespace)
	}
	pod.UID = uidOf("Pod", pod.Namespace, pod.Name)
	pod.CreationTimestamp = metav1.NewTime(s.inventory.Taken)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if s.vary.Queue != "" {
		setLabel(pod, s.vary.QueueLabel, s.vary.Queue)
	}
	if s.vary.Priority != "" {
		pod.Spec.Priority, pod.Spec.PreemptionPolicy, pod.Spec.PriorityClassName = nil, nil, s.vary.Priority
		if value, err := strconv.ParseInt(s.vary.Priority, 10, 32); err == nil {
			pod.Spec.Priority, pod.Spec.PriorityClassName = ptr.To(int32(value)), ""
			// Set the default policy: no PriorityClass applies, not even a global default, so no
			// class sets the policy. In this case, a PodGroup gets the same policy.
			pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptLowerPriority)
		}
	}
	coredefaults.SetObjectDefaults_Pod(pod)
	priority, policy, found, err := s.filler.PriorityOf(pod.Spec.PriorityClassName)
	switch {
	case err != nil:
		return d.fault("%v", err)
	case !found:
		return d.fault("no PriorityClass with name %q exists", pod.Spec.PriorityClassName)
	}
	if pod.Spec.Priority == nil || pod.Spec.PriorityClassName != "" {
		pod.Spec.Priority = &priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = &policy
	}
	return nil
}

func (s *submitting) has(resource, namespace, name string) bool {
	_, ok := s.inventory.Find(resource, namespace, name)
	return ok
}
