package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// labelManagedBy marks the PodGroups that Reprieve writes.
	labelManagedBy, managedBy = "app.kubernetes.io/managed-by", "reprieve-scheduler"
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
	recorder events.EventRecorder
	// told is what has been said of each group last.
	told map[types.NamespacedName]string
}

var _ reconcile.Reconciler = (*Derive)(nil)

// NewDerive returns the writer of derived groups. The function queueLabel is the label by which a pod names its queue. It must be run
// with one worker: it keeps what it has told.
func NewDerive(c client.Client, derived Derived, members Members, queueLabel func(*corev1.Pod) string, recorder events.EventRecorder) *Derive {
	return &Derive{client: c, derived: derived, members: members, queue: queueLabel, recorder: recorder, told: make(map[types.NamespacedName]string)}
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
	if !ok {
		delete(r.told, key)
		return reconcile.Result{}, nil
	}
	members := r.members.Members(key)
	live := living(&members)
	switch {
	case !exists && !g.Ended && len(live) > 0:
		return r.create(ctx, key, g, &members)
	case !exists:
		delete(r.told, key)
		return reconcile.Result{}, nil
	case !slices.ContainsFunc(pg.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == g.Owner.UID }):
		r.tell(&pg, fmt.Sprintf("it is not owned by %s %s, for whose pods it would be made, and is left as it is; delete it",
			g.Owner.Kind, g.Owner.Name))
		return reconcile.Result{}, nil
	case (g.Ended || g.Suspended || g.Surplus) && len(live)+len(members.Terminating) == 0 && pg.Status.Disruption == nil:
		return r.remove(ctx, &pg)
	default:
		return r.follow(ctx, &pg, g, &members)
	}
}

// create writes a group for the first time.
func (r *Derive) create(ctx context.Context, key types.NamespacedName, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	pg := NewDerivedPodGroup(key, g, members, r.queue)
	err := r.client.Create(ctx, pg)
	switch {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil && r.told[key] != err.Error():
		r.told[key] = err.Error()
		r.recorder.Eventf(living(members)[0], nil, corev1.EventTypeWarning, reasonNotDerived, "Grouping",
			"the PodGroup for %s %s cannot be written, so its pods wait: %s", g.Owner.Kind, g.Owner.Name, apiMessage(err))
		fallthrough
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("create PodGroup %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}

// living are the members that a group can be made for.
func living(members *gang.Members) []*corev1.Pod {
	return slices.Concat(members.Pending, members.Gated, members.Assigned)
}

// NewDerivedPodGroup is the PodGroup to create for a derived group, of which at least one member lives. The function queueLabel is
// the label by which a pod names its queue.
func NewDerivedPodGroup(key types.NamespacedName, g grouping.Group, members *gang.Members, queueLabel func(*corev1.Pod) string) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{labelManagedBy: managedBy},
		OwnerReferences: []metav1.OwnerReference{g.Owner},
	}}
	pg.Spec.PodGroupPolicy = policy(g, members, queueLabel)
	return pg
}

// policy is what a group is created with. What the object does not say, its pods do.
func policy(g grouping.Group, members *gang.Members, queueLabel func(*corev1.Pod) string) v1alpha1.PodGroupPolicy {
	out := v1alpha1.PodGroupPolicy{
		SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(g.Needs(members.Available()))}},
	}
	if mode := g.Choice.DisruptionMode; mode != "" {
		out.DisruptionMode = ptr.To(v1alpha1.DisruptionMode(mode))
	}
	// Of several classes, the lowest: none of the pods is to take more than it could by itself.
	lowest := slices.MinFunc(living(members), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(a), corev1helpers.PodPriority(b)), cmp.Compare(a.Name, b.Name))
	})
	if class := cmp.Or(g.Choice.PriorityClass, lowest.Spec.PriorityClassName); class != "" {
		out.PriorityClassName = &class
	}
	if queue := cmp.Or(g.Choice.Queue, lowest.Labels[queueLabel(lowest)], g.Choice.DefaultQueue); queue != "" {
		out.QueueName = &queue
	}
	return out
}

// follow has a group need as many members as the object does now.
func (r *Derive) follow(ctx context.Context, pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	if pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		return reconcile.Result{}, nil
	}
	r.tell(pg, cmp.Or(g.Note, differs(pg, g)))
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
