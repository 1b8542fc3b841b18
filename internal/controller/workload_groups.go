package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// WorkloadGroups writes PodGroups for pods that name a group of a native Workload
// (scheduling.k8s.io) in spec.workloadRef. It creates a PodGroup once there are pods for it, with
// the settings in the Workload. Both objects are immutable, so it replaces a PodGroup that no
// longer suits its pods. The garbage collector deletes the PodGroup together with its Workload.
type WorkloadGroups struct {
	writer
	kind schema.GroupVersionKind
	// told maps groups to the last report about each.
	told map[types.NamespacedName]string
}

var _ reconcile.Reconciler = (*WorkloadGroups)(nil)

// NewWorkloadGroups returns a WorkloadGroups for Workloads of this kind. queueNamedBy returns the
// queue that a pod itself names. gangs has the groups that are being placed. Run it with one
// worker, because it remembers its reports without a lock.
func NewWorkloadGroups(c client.Client, kind schema.GroupVersionKind, members Members, queueNamedBy func(*corev1.Pod) string,
	classes schedulinglisters.PriorityClassLister, gangs *engine.Gangs, recorder events.EventRecorder,
) *WorkloadGroups {
	return &WorkloadGroups{
		writer: writer{
			client: c, members: members, queue: queueNamedBy, classes: classes, gangs: gangs, recorder: recorder,
			made: make(map[types.NamespacedName]string),
		},
		kind: kind, told: make(map[types.NamespacedName]string),
	}
}

// newWorkloadController returns the controller that runs WorkloadGroups when a pod, a PodGroup or a
// Workload changes.
func newWorkloadController(in Inputs) (controller.Controller, error) {
	pods := in.Informers.Core().V1().Pods()
	groupsOfWorkload := func(_ context.Context, workload *unstructured.Unstructured) []reconcile.Request {
		named, err := pods.Lister().Pods(workload.GetNamespace()).List(labels.Everything())
		if err != nil {
			return nil
		}
		var out []reconcile.Request
		for _, pod := range named {
			if ref, ok := native.WorkloadRefOf(pod); ok && ref.Workload == workload.GetName() {
				out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: ref.GroupName()}})
			}
		}
		return out
	}
	sources := append(in.memberSources(handler.EnqueueRequestsFromMapFunc(in.groupOfPod)),
		source.Kind(in.Cache, &v1alpha1.PodGroup{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PodGroup]{}),
		source.Kind(in.Cache, native.NewObject(*in.Workloads), handler.TypedEnqueueRequestsFromMapFunc(groupsOfWorkload)),
	)
	return newResolveController("podgroup-of-workload",
		NewWorkloadGroups(in.Client, *in.Workloads, in.Members, in.Queues.QueueNamedBy, in.Informers.Scheduling().V1().PriorityClasses().Lister(), in.Gangs, in.Recorder),
		sources...)
}

// Reconcile creates the PodGroup of one group, or replaces it.
func (r *WorkloadGroups) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req.NamespacedName
	if gang.IsTree(key) {
		return reconcile.Result{}, nil
	}
	var pg v1alpha1.PodGroup
	if err := r.client.Get(ctx, key, &pg); err == nil {
		delete(r.told, key)
		return r.level(ctx, &pg)
	} else if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("get PodGroup %s: %w", key, err)
	}
	members := r.members.Members(key)
	live := living(&members)
	at := slices.IndexFunc(live, func(pod *corev1.Pod) bool {
		ref, ok := native.WorkloadRefOf(pod)
		return ok && ref.GroupName() == key.Name
	})
	if at < 0 {
		delete(r.told, key)
		delete(r.made, key)
		return reconcile.Result{}, nil
	}
	ref, _ := native.WorkloadRefOf(live[at])
	workload := native.NewObject(r.kind)
	err := r.client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: ref.Workload}, workload)
	if apierrors.IsNotFound(err) {
		r.tell(key, members, fmt.Sprintf("Workload %s, which spec.workloadRef names, does not exist", ref.Workload))
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get Workload %s/%s: %w", key.Namespace, ref.Workload, err)
	}
	found, ok := native.GroupOfWorkload(workload, ref.PodGroup)
	if !ok {
		r.tell(key, members, fmt.Sprintf("Workload %s has no group %s, which spec.workloadRef names", ref.Workload, ref.PodGroup))
		return reconcile.Result{}, nil
	}
	return r.create(ctx, key, workload, found.SchedulingPolicy, members)
}

// level replaces a PodGroup that no longer suits its pods. It ignores PodGroups that users have
// created.
func (r *WorkloadGroups) level(ctx context.Context, pg *v1alpha1.PodGroup) (reconcile.Result, error) {
	known := gang.FromPodGroup(pg)
	if !known.Bounded {
		return reconcile.Result{}, nil
	}
	members := r.members.Members(known.Key)
	if len(living(&members)) == 0 {
		return reconcile.Result{}, nil
	}
	d := &Derivation{Group: grouping.Group{MinCount: known.MinCount}, Key: known.Key, Members: &members, Tree: &members}
	now, _, err := policy(d, r.queue, r.classes)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("compare PodGroup %s with its pods: %w", known.Key, err)
	}
	due, later := r.isDue(ctx, pg, &now, d)
	if due {
		return r.remove(ctx, pg)
	}
	return reconcile.Result{RequeueAfter: later}, nil
}

// create creates the PodGroup of a group in a Workload.
func (r *WorkloadGroups) create(ctx context.Context, key types.NamespacedName, workload *unstructured.Unstructured, scheduling *v1alpha1.SchedulingPolicy, members gang.Members) (reconcile.Result, error) {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{labelManagedBy: managedBy},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: workload.GetAPIVersion(), Kind: workload.GetKind(), Name: workload.GetName(), UID: workload.GetUID(),
		}},
	}}
	// A Workload has neither a priority nor a queue, so both come from the pods.
	made, _, err := policy(&Derivation{Key: key, Members: &members, Tree: &members}, r.queue, r.classes)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("make PodGroup %s: %w", key, err)
	}
	pg.Spec.PodGroupPolicy = made
	pg.Spec.SchedulingPolicy = scheduling
	err = r.client.Create(ctx, pg)
	if apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if err != nil {
		r.tell(key, members, fmt.Sprintf("the PodGroup for Workload %s cannot be written: %s", workload.GetName(), apiMessage(err)))
		return reconcile.Result{}, fmt.Errorf("create PodGroup %s: %w", key, err)
	}
	delete(r.told, key)
	r.made[key] = settingsOf(&made)
	return reconcile.Result{}, nil
}

// tell reports the reason why the waiting pods of a group wait, once for each reason.
func (r *WorkloadGroups) tell(key types.NamespacedName, members gang.Members, why string) {
	wait := slices.Concat(members.Pending, members.Gated)
	if len(wait) == 0 || r.told[key] == why {
		return
	}
	r.told[key] = why
	r.recorder.Eventf(wait[0], nil, corev1.EventTypeWarning, gang.ReasonPodGroupNotMade, "Grouping", "the pods of PodGroup %s wait: %s", key.Name, why)
}
