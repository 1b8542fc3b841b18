package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

const (
	// reasonNotFollowed is the reason of events on PodGroups that cannot follow the object that they are made for.
	reasonNotFollowed = "ObjectNotFollowed"
	// reasonNotDerived is the reason of events on pods whose PodGroup cannot be written.
	reasonNotDerived = "PodGroupNotMade"
	// classDelay is when a class is looked for again that does not exist.
	classDelay = 5 * time.Second
	// labelManagedBy marks the PodGroups that Reprieve writes.
	labelManagedBy, managedBy = "app.kubernetes.io/managed-by", "reprieve-scheduler"
	// annotationMadeFrom marks those of them that no object owns.
	annotationMadeFrom, madeFromPods = v1alpha1.GroupName + "/made-from", "pods"
)

// Derived knows the groups that are made for pods which name none.
type Derived interface {
	gang.Membership
	// Group describes a derived group, and Recall makes one known by the object that owns it.
	Group(key types.NamespacedName) (grouping.Group, bool)
	Recall(key types.NamespacedName, owner types.UID)
	// Hold says why it is not known yet to which group a pod belongs.
	Hold(pod *corev1.Pod) gang.Verdict
}

// Derive writes the PodGroups of derived groups: when there are pods for one, with the count of the object that it is made for as
// long as that may be changed, and takes it away once a run is over. Deleting the object is left to the garbage collector.
type Derive struct {
	client   client.Client
	derived  Derived
	members  Members
	queue    func(*corev1.Pod) string
	classes  schedulinglisters.PriorityClassLister
	recorder events.EventRecorder
	// told is what has been said of each group last.
	told map[types.NamespacedName]string
}

var _ reconcile.Reconciler = (*Derive)(nil)

// NewDerive returns the writer of derived groups. The function queueNamedBy is the queue that a pod names by itself. It must be run
// with one worker: it keeps what it has told.
func NewDerive(c client.Client, derived Derived, members Members, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister, recorder events.EventRecorder) *Derive {
	return &Derive{
		client: c, derived: derived, members: members, queue: queueNamedBy, classes: classes, recorder: recorder,
		told: make(map[types.NamespacedName]string),
	}
}

// Reconcile looks at one group.
func (r *Derive) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req.NamespacedName
	var pg v1alpha1.PodGroup
	err := r.client.Get(ctx, key, &pg)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("get PodGroup %s: %w", key, err)
	}
	if exists {
		for _, owner := range pg.OwnerReferences {
			r.derived.Recall(key, owner.UID)
		}
	}
	g, ok := r.derived.Group(key)
	members := r.members.Members(key)
	switch {
	case !ok && exists && isOwnerless(&pg) && members.Total() == 0 && pg.Status.Disruption == nil:
		// Its pods went while no scheduler led.
		return r.remove(ctx, &pg)
	case !ok:
		delete(r.told, key)
		return reconcile.Result{}, nil
	case exists:
		return r.level(ctx, &pg, g, &members)
	case !g.Ended && len(living(&members)) > 0:
		return r.create(ctx, key, g, &members)
	default:
		delete(r.told, key)
		return reconcile.Result{}, nil
	}
}

// level brings a group that is there level with what it is made for.
func (r *Derive) level(ctx context.Context, pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	over := g.Ended || g.Suspended || g.Surplus || g.Ownerless && members.Total() == 0
	switch {
	case !BelongsTo(pg, g):
		r.tell(pg, fmt.Sprintf("it is not owned by %s %s, for whose pods it would be made, and is left as it is; delete it",
			g.Owner.Kind, g.Owner.Name))
		return reconcile.Result{}, nil
	case over && len(living(members))+len(members.Terminating) == 0 && pg.Status.Disruption == nil:
		return r.remove(ctx, pg)
	default:
		return r.follow(ctx, pg, g, members)
	}
}

// BelongsTo reports whether a PodGroup is the one that was made for a derived group: for its object, or for pods where there is none.
func BelongsTo(pg *v1alpha1.PodGroup, g grouping.Group) bool {
	if g.Ownerless {
		return isOwnerless(pg)
	}
	return slices.ContainsFunc(pg.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == g.Owner.UID })
}

// isOwnerless reports whether a group was made from what its pods say, with no object that could own it.
func isOwnerless(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[labelManagedBy] == managedBy && pg.Annotations[annotationMadeFrom] == madeFromPods && len(pg.OwnerReferences) == 0
}

// create writes a group for the first time.
func (r *Derive) create(ctx context.Context, key types.NamespacedName, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	pg, err := NewDerivedPodGroup(key, g, members, r.queue, r.classes)
	if err != nil {
		r.refuse(key, g, members, err.Error())
		return reconcile.Result{RequeueAfter: classDelay}, nil
	}
	err = r.client.Create(ctx, pg)
	switch {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		r.refuse(key, g, members, apiMessage(err))
		return reconcile.Result{}, fmt.Errorf("create PodGroup %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}

// refuse tells a pod, once, why its group is not made.
func (r *Derive) refuse(key types.NamespacedName, g grouping.Group, members *gang.Members, why string) {
	if r.told[key] == why {
		return
	}
	r.told[key] = why
	r.recorder.Eventf(living(members)[0], nil, corev1.EventTypeWarning, reasonNotDerived, "Grouping",
		"the PodGroup for %s %s cannot be written, so its pods wait: %s", g.Owner.Kind, g.Owner.Name, why)
}

// living are the members that a group can be made for.
func living(members *gang.Members) []*corev1.Pod {
	return slices.Concat(members.Pending, members.Gated, members.Assigned)
}

// NewDerivedPodGroup is the PodGroup to create for a derived group, of which at least one member lives. The function queueNamedBy is the
// queue that a pod names by itself. It returns an error where the group asks for a PriorityClass that does not exist: nothing is
// known then of what it would give the pods.
func NewDerivedPodGroup(key types.NamespacedName, g grouping.Group, members *gang.Members, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister) (*v1alpha1.PodGroup, error) {
	class, _, err := classFor(g, living(members), classes)
	if err != nil {
		return nil, err
	}
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{labelManagedBy: managedBy},
	}}
	if g.Ownerless {
		pg.Annotations = map[string]string{annotationMadeFrom: madeFromPods}
	} else {
		pg.OwnerReferences = []metav1.OwnerReference{g.Owner}
	}
	pg.Spec.PodGroupPolicy = policy(g, members, class, queueNamedBy)
	return pg, nil
}

// policy is what a group of a class is created with. What the object does not say, its pods do.
func policy(g grouping.Group, members *gang.Members, class string, queueNamedBy func(*corev1.Pod) string) v1alpha1.PodGroupPolicy {
	out := v1alpha1.PodGroupPolicy{
		SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(g.Needs(members.Available()))}},
	}
	if mode := g.Choice.DisruptionMode; mode != "" {
		out.DisruptionMode = ptr.To(v1alpha1.DisruptionMode(mode))
	}
	if class != "" {
		out.PriorityClassName = &class
	}
	if queue := cmp.Or(g.Choice.Queue, queueNamedBy(lowestOf(living(members))), g.Choice.DefaultQueue); queue != "" {
		out.QueueName = &queue
	}
	return out
}

// lowestOf is the pod with the lowest priority. Where pods have several classes, its counts: none of them is to take more than
// it could by itself.
func lowestOf(pods []*corev1.Pod) *corev1.Pod {
	return slices.MinFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(a), corev1helpers.PodPriority(b)), cmp.Compare(a.Name, b.Name))
	})
}

// classFor is the PriorityClass of a group. The user that writes the object may write pods, and is kept to their classes by quotas and
// policies that know of pods only: so an object's own annotation gives its group no more than the pods have, and the group has
// their class where it would. Above says so then. That of a namespace is set by the administrators of the cluster.
func classFor(g grouping.Group, live []*corev1.Pod, classes schedulinglisters.PriorityClassLister) (class, above string, err error) {
	lowest := lowestOf(live)
	wanted := g.Choice.PriorityClass
	if wanted == "" || wanted == lowest.Spec.PriorityClassName || g.Choice.ClassOfNamespace {
		return cmp.Or(wanted, lowest.Spec.PriorityClassName), "", nil
	}
	found, err := classes.Get(wanted)
	if err != nil {
		return "", "", fmt.Errorf("PriorityClass %q, which its annotation %s names: %w", wanted, v1alpha1.AnnotationPriorityClass, err)
	}
	mayPreempt := ptr.Deref(found.PreemptionPolicy, corev1.PreemptLowerPriority) != corev1.PreemptNever
	never := slices.ContainsFunc(live, func(pod *corev1.Pod) bool {
		return ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever
	})
	switch {
	case found.Value > corev1helpers.PodPriority(lowest):
		above = fmt.Sprintf("%s %s asks for %s: %q, whose priority %d is above that of its pods, %d; the PodGroup has theirs",
			g.Owner.Kind, g.Owner.Name, v1alpha1.AnnotationPriorityClass, wanted, found.Value, corev1helpers.PodPriority(lowest))
	case mayPreempt && never:
		above = fmt.Sprintf("%s %s asks for %s: %q, which may preempt, and its pods may not; the PodGroup has their class",
			g.Owner.Kind, g.Owner.Name, v1alpha1.AnnotationPriorityClass, wanted)
	default:
		return wanted, "", nil
	}
	return lowest.Spec.PriorityClassName, above, nil
}

// follow has a group need as many members as the object does now.
func (r *Derive) follow(ctx context.Context, pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	if pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		return reconcile.Result{}, nil
	}
	above := ""
	if live := living(members); len(live) > 0 && ptr.Deref(pg.Spec.PriorityClassName, "") != g.Choice.PriorityClass {
		// A class that has gone since says nothing.
		_, above, _ = classFor(g, live, r.classes)
	}
	r.tell(pg, cmp.Or(g.Note, above, differs(pg, g)))
	before := pg.DeepCopy()
	if !FollowObject(pg, g, members) {
		return reconcile.Result{}, nil
	}
	if err := r.client.Patch(ctx, pg, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsInvalid(err) {
			// A member has got a node meanwhile; the group comes by again.
			return reconcile.Result{RequeueAfter: conflictDelay}, nil
		}
		return retryConflict(fmt.Errorf("have PodGroup %s/%s need %d members: %w", pg.Namespace, pg.Name, pg.Spec.SchedulingPolicy.Gang.MinCount, err))
	}
	return reconcile.Result{}, nil
}

// FollowObject has a PodGroup need as many members as its object does now, as far as the API lets it be changed. It reports whether that
// changes anything.
func FollowObject(pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) bool {
	if g.Ended || g.Suspended || pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		// Members that go must not make it look as if fewer were needed.
		return false
	}
	have, want := pg.Spec.SchedulingPolicy.Gang.MinCount, int32(g.Needs(members.Available()))
	if have == want || want > have && pg.Status.Scheduled > 0 {
		// The API does not let it be raised while members have a node; further ones are placed where they fit.
		return false
	}
	pg.Spec.SchedulingPolicy.Gang.MinCount = want
	return true
}

// differs says which settings of a group are not those of its object any more; they cannot be changed.
func differs(pg *v1alpha1.PodGroup, g grouping.Group) string {
	for _, s := range []struct{ annotation, want, have string }{
		{v1alpha1.AnnotationDisruptionMode, g.Choice.DisruptionMode, string(ptr.Deref(pg.Spec.DisruptionMode, v1alpha1.DisruptionModePod))},
		{v1alpha1.AnnotationPriorityClass, g.Choice.PriorityClass, ptr.Deref(pg.Spec.PriorityClassName, "")},
		{v1alpha1.AnnotationQueue, g.Choice.Queue, ptr.Deref(pg.Spec.QueueName, "")},
	} {
		if s.want != "" && s.want != s.have {
			return fmt.Sprintf("%s %s asks for %s: %q, and the PodGroup was made with %q, which cannot be changed; it counts from its next run on",
				g.Owner.Kind, g.Owner.Name, s.annotation, s.want, s.have)
		}
	}
	return ""
}

// remove takes a group away whose run is over. The next one gets one of its own.
func (r *Derive) remove(ctx context.Context, pg *v1alpha1.PodGroup) (reconcile.Result, error) {
	err := r.client.Delete(ctx, pg, client.Preconditions{UID: &pg.UID, ResourceVersion: &pg.ResourceVersion})
	if err := client.IgnoreNotFound(err); err != nil {
		return retryConflict(fmt.Errorf("delete PodGroup %s/%s: %w", pg.Namespace, pg.Name, err))
	}
	return reconcile.Result{}, nil
}

// tell says something of a group, once; "" for nothing.
func (r *Derive) tell(pg *v1alpha1.PodGroup, what string) {
	key := client.ObjectKeyFromObject(pg)
	if r.told[key] == what {
		return
	}
	r.told[key] = what
	if what != "" {
		r.recorder.Eventf(pg, nil, corev1.EventTypeWarning, reasonNotFollowed, "Grouping", "%s", what)
	}
}

// apiMessage is what the API server has to say in an error.
func apiMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
