package manifest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// Workload is what a plan decides for in one go: the pods of a gang together, those of anything else one by one.
type Workload struct {
	// Kind, Namespace and Name are those of what was submitted: of the PodGroup, where the pods have one.
	Kind, Namespace, Name string
	// Gang is true where the pods are placed together.
	Gang bool
	// Pods are as the API server would have them.
	Pods []*corev1.Pod
}

// Turns is how many decisions it takes to place the pods.
func (w *Workload) Turns() int {
	if w.Gang && len(w.Pods) > 0 {
		return 1
	}
	return len(w.Pods)
}

// Variation is what to plan with in place of what was submitted; the zero value changes nothing.
type Variation struct {
	// Namespace is that of objects that name none.
	Namespace string
	// Priority is a number, or the name of a PriorityClass; "" for what was submitted.
	Priority string
	// Queue is the leaf queue; "" for what was submitted. QueueLabel is the label by which pods name theirs.
	Queue, QueueLabel string
	// Replicas is how many pods a controller makes; nil for what was submitted.
	Replicas *int32
}

// Submission is what was submitted, as the scheduler would see it.
type Submission struct {
	// Workloads are in the order in which they were submitted.
	Workloads []Workload
	// Objects is the inventory with all that was submitted but the pods.
	Objects *inventory.Inventory
	// Ignored names what no decision depends on.
	Ignored []string
}

// Submit adds documents to an inventory, as the API server and the controllers would.
func Submit(ctx context.Context, to *inventory.Inventory, documents []Document, vary Variation) (*Submission, error) {
	s := &submitting{inventory: to, vary: vary}
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
	multiplied := false
	for i := range madeOf {
		d := &madeOf[i]
		pods, made, err := podsOf(d, vary.Replicas)
		switch {
		case err != nil:
			return nil, err
		case !made:
			out.Ignored = append(out.Ignored, d.Kind+"/"+d.Meta.GetName())
			continue
		}
		multiplied = multiplied || d.Kind != "Pod"
		if err := s.add(out, d, pods); err != nil {
			return nil, err
		}
	}
	if vary.Replicas != nil && !multiplied {
		return nil, &Error{File: documents[0].File, Line: documents[0].Line, Reason: "--replicas is for what makes pods (a Job, a Deployment), and there is none"}
	}
	out.Objects = s.inventory
	return out, nil
}

func isNamespaced(kind string) bool {
	return !slices.Contains([]string{"PriorityClass", "Queue", "Namespace", "Node", "PersistentVolume", "StorageClass"}, kind)
}

// uidOf makes up the UID of an object that does not exist: the same for the same names.
func uidOf(kind, namespace, name string) types.UID {
	return types.UID("plan:" + strings.ToLower(kind) + ":" + namespace + "/" + name)
}

// submitting is a Submit under way.
type submitting struct {
	inventory *inventory.Inventory
	vary      Variation
	filler    *controller.Filler
	// groups are the documents of PodGroups.
	groups []Document
	// templates are the documents of Workloads.
	templates []Document
}

// keep puts what the scheduler reads as it is among the objects. It reports false for what pods are made of, or nothing.
func (s *submitting) keep(d *Document) (bool, error) {
	var resource string
	switch object := d.Object.(type) {
	case *v1alpha1.PodGroup:
		s.groups = append(s.groups, *d)
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
		// What makes pods is more than an owner.
		if resource == "" || slices.Contains([]string{"replicasets", "statefulsets", "replicationcontrollers"}, resource) {
			return false, nil
		}
	}
	return true, s.put(resource, d)
}

// put puts an object in the place of the one that has its name.
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

// fillIn fills in templates and groups, once all classes are known.
func (s *submitting) fillIn(ctx context.Context) error {
	classes, err := inventory.Decode[*schedulingv1.PriorityClass](s.inventory, inventory.PriorityClasses)
	if err != nil {
		return fmt.Errorf("priority classes: %w", err)
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, class := range classes {
		if err := indexer.Add(class); err != nil {
			return fmt.Errorf("priority class %s: %w", class.Name, err)
		}
	}
	s.filler = controller.NewFiller(templates{s}, schedulinglisters.NewPriorityClassLister(indexer))
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
	return s.put(inventory.PodGroups, d)
}

// templates finds Workloads for the filler.
type templates struct{ of *submitting }

// Get reads a Workload.
func (t templates) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := t.of.inventory.Find(inventory.Workloads, key.Namespace, key.Name)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupName, Resource: "workloads"}, key.Name)
	}
	return found.Into(into)
}

// List is part of client.Reader.
func (templates) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return fmt.Errorf("only single Workloads are read")
}

// add files the pods of a document under what they are decided with: their gang, or the document.
func (s *submitting) add(to *Submission, d *Document, pods []*corev1.Pod) error {
	for _, pod := range pods {
		if err := s.admit(d, pod); err != nil {
			return err
		}
		w := Workload{Kind: d.Kind, Namespace: pod.Namespace, Name: d.Meta.GetName()}
		if key, ok := gang.GroupOf(pod); ok {
			w = Workload{Kind: "PodGroup", Namespace: key.Namespace, Name: key.Name}
			var err error
			if w.Gang, err = s.isGang(key); err != nil {
				return d.fault("%v", err)
			}
		}
		at := slices.IndexFunc(to.Workloads, func(o Workload) bool {
			return o.Kind == w.Kind && o.Namespace == w.Namespace && o.Name == w.Name
		})
		if at < 0 {
			at = len(to.Workloads)
			to.Workloads = append(to.Workloads, w)
		}
		if slices.ContainsFunc(to.Workloads[at].Pods, func(o *corev1.Pod) bool { return o.Name == pod.Name }) {
			return d.fault("pod %s/%s is there twice", pod.Namespace, pod.Name)
		}
		to.Workloads[at].Pods = append(to.Workloads[at].Pods, pod)
	}
	return nil
}

// isGang reports whether the members of a group are placed together. One that does not exist is decided on as one: its pods
// wait for it.
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

// admit fills in what the API server fills in, and refuses what it refuses.
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
