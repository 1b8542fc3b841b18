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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

const (
	// labelManagedBy marks the PodGroups that Reprieve writes.
	labelManagedBy, managedBy = gang.LabelManagedBy, gang.ManagedBy
	// annotationMadeFrom marks those of them that no object owns.
	annotationMadeFrom, madeFromPods = v1alpha1.GroupName + "/made-from", "pods"
)

// Derived knows the groups that are made for pods which name none.
type Derived interface {
	Holds
	// Group describes a derived group, and Recall makes one known by the object that owns it.
	Group(key types.NamespacedName) (grouping.Group, bool)
	Recall(key types.NamespacedName, owner types.UID)
}

// Derive writes the PodGroups of derived groups: when there are pods for one, with the count of the object that it is made for as
// long as that may be changed, and takes it away once a run is over. Deleting the object is left to the garbage collector.
type Derive struct {
	writer
	derived Derived
	say     func(*corev1.Pod, corev1.PodCondition)
	clock   clock.PassiveClock
	// refused is why groups cannot be written.
	refused map[types.NamespacedName]refusal
	// figure is told how many pods wait for such groups, when that changes; waiting has them by group.
	figure  func(reason string, pods int)
	waiting map[types.NamespacedName]int
	// denied is how long those wait whose count the API server does not let be changed.
	denied workqueue.TypedRateLimiter[types.NamespacedName]
}

// refusal is why a group cannot be written, as its pods have been told, and when they were.
type refusal struct {
	verdict gang.Verdict
	at      time.Time
}

var _ reconcile.Reconciler = (*Derive)(nil)

// NewDerive returns the writer of derived groups. The function queueNamedBy is the queue that a pod names by itself. The registry hears
// why a group cannot be written, pods by the function say, which writes a condition, and figure how many pods wait for that. It must be
// run with one worker: it keeps what it has told.
func NewDerive(c client.Client, derived Derived, members Members, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister, registry *gang.Registry, recorder events.EventRecorder, say func(*corev1.Pod, corev1.PodCondition), figure func(reason string, pods int), clk clock.PassiveClock) *Derive {
	return &Derive{
		writer: writer{
			client: c, members: members, queue: queueNamedBy, classes: classes, registry: registry, recorder: recorder,
			made: make(map[types.NamespacedName]string),
		},
		derived: derived, say: say, clock: clk, refused: make(map[types.NamespacedName]refusal),
		figure: figure, waiting: make(map[types.NamespacedName]int),
		denied: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](conflictDelay, longestDelay),
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
		r.count(key, 0)
		for _, owner := range pg.OwnerReferences {
			r.derived.Recall(key, owner.UID)
		}
	}
	g, ok := r.derived.Group(key)
	abandoned := exists && isAbandoned(&pg, ok)
	if !ok && !abandoned {
		r.forget(key)
		return reconcile.Result{}, nil
	}
	members := r.members.Members(key)
	switch {
	case abandoned && members.Total() == 0 && pg.Status.Disruption == nil:
		return r.remove(ctx, &pg)
	case !ok:
		r.forget(key)
		return reconcile.Result{}, nil
	case exists:
		return r.level(ctx, &pg, g, &members)
	case !g.Ended && len(living(&members)) > 0:
		return r.create(ctx, key, g, &members)
	default:
		r.forget(key)
		return reconcile.Result{}, nil
	}
}

// forget ends what is remembered of a group that is not to be written.
func (r *Derive) forget(key types.NamespacedName) {
	r.written(key)
	delete(r.made, key)
}

// written takes back that a group cannot be written, and what became of one before it.
func (r *Derive) written(key types.NamespacedName) {
	r.denied.Forget(key)
	r.count(key, 0)
	if _, ok := r.refused[key]; ok {
		delete(r.refused, key)
		r.registry.SetUnresolved(key, gang.Verdict{})
	}
}

// count takes note of how many pods wait for a group that cannot be written.
func (r *Derive) count(key types.NamespacedName, pods int) {
	if r.waiting[key] == pods {
		return
	}
	r.waiting[key] = pods
	if pods == 0 {
		delete(r.waiting, key)
	}
	total := 0
	for _, n := range r.waiting {
		total += n
	}
	r.figure(gang.ReasonPodGroupNotMade, total)
}

// level brings a group that is there level with what it is made for.
func (r *Derive) level(ctx context.Context, pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	// What there was of work that is over is told as long as there is a pod of it.
	over := g.Ended || g.Suspended || g.Surplus || (g.Ownerless || g.Finished) && members.Total() == 0
	switch {
	case g.Ended && isAbandoned(pg, true):
		// It goes once its pods have, which stay what they are.
		return reconcile.Result{}, nil
	case !BelongsTo(pg, g):
		return r.tell(ctx, pg, fmt.Sprintf("it is not owned by %s %s, for whose pods it would be made, and is left as it is; delete it",
			g.Owner.Kind, g.Owner.Name))
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

// isAbandoned reports whether a group was written that only its pods would keep: its pods went while no scheduler led, or its object
// was deleted and left what it owned behind.
func isAbandoned(pg *v1alpha1.PodGroup, isKnown bool) bool {
	if isOwnerless(pg) {
		return !isKnown
	}
	return pg.Labels[labelManagedBy] == managedBy && len(pg.OwnerReferences) == 0
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
	settings := settingsOf(&pg.Spec.PodGroupPolicy)
	err = r.client.Create(ctx, pg)
	switch {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		r.refuse(key, g, members, apiMessage(err))
		return reconcile.Result{}, fmt.Errorf("create PodGroup %s: %w", key, err)
	}
	r.written(key)
	r.made[key] = settings
	return reconcile.Result{}, nil
}

// refuse has the pods of a group say why it is not made, and tells one of them, once, by an event. The text may be another one at each
// try, as where a port stands in it, and pods that say something else have their group tried again: so they do after a while only.
func (r *Derive) refuse(key types.NamespacedName, g grouping.Group, members *gang.Members, why string) {
	v := gang.Verdict{
		Reason:  gang.ReasonPodGroupNotMade,
		Message: fmt.Sprintf("the PodGroup for %s %s cannot be written, so its pods wait: %s", g.Owner.Kind, g.Owner.Name, why),
	}
	now := r.clock.Now()
	told, ok := r.refused[key]
	if !ok || told.verdict != v && now.Sub(told.at) >= repeatDelay {
		told = refusal{verdict: v, at: now}
		r.refused[key] = told
		r.recorder.Eventf(living(members)[0], nil, corev1.EventTypeWarning, v.Reason, "Grouping", "%s", v.Message)
	}
	// One of its name may have gone meanwhile, with all that was said of it.
	r.registry.SetUnresolved(key, told.verdict)
	r.count(key, len(members.Pending))
	for _, pod := range members.Pending {
		sayHeld(r.say, pod, told.verdict)
	}
}

// living are the members that a group can be made for.
func living(members *gang.Members) []*corev1.Pod {
	return slices.Concat(members.Pending, members.Gated, members.Assigned)
}

// NewDerivedPodGroup is the PodGroup to create for a derived group, of which at least one member lives. The function queueNamedBy is the
// queue that a pod names by itself. It returns an error where the group asks for a PriorityClass that does not exist: nothing is
// known then of what it would give the pods.
func NewDerivedPodGroup(key types.NamespacedName, g grouping.Group, members *gang.Members, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister) (*v1alpha1.PodGroup, error) {
	made, _, err := policy(g, members, queueNamedBy, classes)
	if err != nil {
		return nil, err
	}
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{labelManagedBy: managedBy},
	}}
	if g.Ownerless {
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, annotationMadeFrom, madeFromPods)
	} else {
		pg.OwnerReferences = []metav1.OwnerReference{g.Owner}
	}
	pg.Spec.PodGroupPolicy = made
	markSources(pg, g.Choice)
	return pg, nil
}

// follow has a group need as many members as the object does now.
func (r *Derive) follow(ctx context.Context, pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	if pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		return reconcile.Result{}, nil
	}
	for _, pod := range members.Pending {
		takeBackHeld(r.say, pod, gang.ReasonPodGroupNotMade)
	}
	what, again := g.Note, reconcile.Result{}
	lives := len(living(members)) > 0
	if lives {
		now, above, err := policy(g, members, r.queue, r.classes)
		what = cmp.Or(what, above, differs(pg, g))
		// A class that has gone since says nothing.
		if err == nil {
			due, later := r.isDue(ctx, pg, &now, g, members)
			if due {
				return r.remove(ctx, pg)
			}
			what, again.RequeueAfter = cmp.Or(what, dropped(pg, &now, g)), later
		}
	}
	// With no pod to compare its class with, what the group has said stands.
	if lives || what != "" {
		if result, err := r.tell(ctx, pg, what); err != nil || !result.IsZero() {
			return result, err
		}
	}
	before := pg.DeepCopy()
	key := client.ObjectKeyFromObject(pg)
	marked := markEarlier(pg, g.Choice)
	if !FollowObject(pg, g, members) && !marked {
		r.denied.Forget(key)
		return again, nil
	}
	if err := r.client.Patch(ctx, pg, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsInvalid(err) {
			// A member has got a node meanwhile, which the cache has in a moment; or a policy says no, and goes on to.
			return reconcile.Result{RequeueAfter: r.denied.When(key)}, nil
		}
		return retryConflict(fmt.Errorf("have PodGroup %s need %d members: %w", key, pg.Spec.SchedulingPolicy.Gang.MinCount, err))
	}
	r.denied.Forget(key)
	return again, nil
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

// tell has a group say how it is not as its object asks, and sends an event once; "" for that it is.
func (r *Derive) tell(ctx context.Context, pg *v1alpha1.PodGroup, what string) (reconcile.Result, error) {
	c := metav1.Condition{
		Type: v1alpha1.ConditionFollowsObject, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonObjectNotFollowed, Message: what,
		ObservedGeneration: pg.Generation,
	}
	said := meta.FindStatusCondition(pg.Status.Conditions, c.Type)
	if what == "" {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonObjectFollowed, "the PodGroup is as its object asks"
	}
	if said == nil && what == "" || said != nil && said.Status == c.Status && said.Message == c.Message {
		return reconcile.Result{}, nil
	}
	before := pg.DeepCopy()
	meta.SetStatusCondition(&pg.Status.Conditions, c)
	if err := r.client.Status().Patch(ctx, pg, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return retryConflict(fmt.Errorf("write status of PodGroup %s/%s: %w", pg.Namespace, pg.Name, err))
	}
	if what != "" {
		r.recorder.Eventf(pg, nil, corev1.EventTypeWarning, c.Reason, "Grouping", "%s", what)
	}
	return reconcile.Result{}, nil
}

// apiMessage is what the API server has to say in an error.
func apiMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
