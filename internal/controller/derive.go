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
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
)

const (
	// labelManagedBy marks the PodGroups that Reprieve writes.
	labelManagedBy, managedBy = gang.LabelManagedBy, gang.ManagedBy
	// annotationMadeFrom marks the PodGroups from Reprieve that no object owns.
	annotationMadeFrom, madeFromPods = v1alpha1.GroupName + "/made-from", "pods"
)

// Derived lists the groups that are created for pods without a PodGroup.
type Derived interface {
	Holds
	// Group describes a derived group. Recall registers a derived group by the object that owns it.
	Group(key types.NamespacedName) (grouping.Group, bool)
	Recall(key types.NamespacedName, owner types.UID)
}

// Derive writes the PodGroups of derived groups. It creates a PodGroup once there are pods for it,
// and updates its minCount from the object while the API permits that. It deletes the PodGroup once
// a run is over. If the object is deleted, the garbage collector deletes the PodGroup.
type Derive struct {
	writer
	derived Derived
	say     func(*corev1.Pod, corev1.PodCondition)
	clock   clock.PassiveClock
	// refused holds the reasons why groups cannot be written.
	refused map[types.NamespacedName]writeFailure
	// figure is called with the number of pods that wait for groups in refused, when the number
	// changes. waiting has these numbers by group.
	figure  func(reason string, pods int)
	waiting map[types.NamespacedName]int
	// denied computes the delays for groups whose minCount the API server does not let Reprieve
	// change.
	denied workqueue.TypedRateLimiter[types.NamespacedName]
}

// writeFailure is the reason why a group cannot be written, as the group's pods show it, with the
// time of the report.
type writeFailure struct {
	verdict gang.Verdict
	at      time.Time
}

var _ reconcile.Reconciler = (*Derive)(nil)

// NewDerive returns the writer of derived groups. The function queueNamedBy returns the queue that
// a pod names by itself. If a group cannot be written, the records get the reason, and say writes
// the reason as a condition of the pods. figure gets the number of these pods. Run it with one
// worker, because it remembers its reports without a lock.
func NewDerive(c client.Client, derived Derived, members Members, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister, gangs *engine.Gangs, recorder events.EventRecorder, say func(*corev1.Pod, corev1.PodCondition), figure func(reason string, pods int), clk clock.PassiveClock) *Derive {
	return &Derive{
		writer: writer{
			client: c, members: members, queue: queueNamedBy, classes: classes, gangs: gangs, recorder: recorder,
			made: make(map[types.NamespacedName]string),
		},
		derived: derived, say: say, clock: clk, refused: make(map[types.NamespacedName]writeFailure),
		figure: figure, waiting: make(map[types.NamespacedName]int),
		denied: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](conflictDelay, longestDelay),
	}
}

// Reconcile creates, updates or deletes the PodGroup of one derived group.
func (r *Derive) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req.NamespacedName
	if gang.IsTree(key) {
		return reconcile.Result{}, nil
	}
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

// forget drops the data about a group that Derive no longer writes.
func (r *Derive) forget(key types.NamespacedName) {
	r.written(key)
	delete(r.made, key)
}

// written clears the reason why a group could not be written, and the delays after denied changes.
func (r *Derive) written(key types.NamespacedName) {
	r.denied.Forget(key)
	r.count(key, 0)
	if _, ok := r.refused[key]; ok {
		delete(r.refused, key)
		r.gangs.SetUnresolved(gang.KeyOf(key), gang.Verdict{})
	}
}

// count records how many pods wait for a group that cannot be written.
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

// level updates an existing PodGroup to match its object, or deletes it once its run is over.
func (r *Derive) level(ctx context.Context, pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	// The PodGroup of finished work, or of pods without an object, stays until its last pod is
	// deleted, because it shows the status of the work.
	over := g.Ended || g.Suspended || g.Surplus || (g.Ownerless || g.Finished) && members.Total() == 0
	switch {
	case g.Ended && isAbandoned(pg, true):
		// The PodGroup will be deleted after its pods are gone. Until then it does not change.
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

// BelongsTo reports whether a PodGroup was created for a derived group: for its object, or for its
// pods if there is no object.
func BelongsTo(pg *v1alpha1.PodGroup, g grouping.Group) bool {
	if g.Ownerless {
		return isOwnerless(pg)
	}
	return slices.ContainsFunc(pg.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == g.Owner.UID })
}

// isAbandoned reports whether only pods had kept a PodGroup of Reprieve in existence, and these are
// gone. Either the pods disappeared while no scheduler led, or the PodGroup's object was deleted
// and left its dependents behind.
func isAbandoned(pg *v1alpha1.PodGroup, isKnown bool) bool {
	if isOwnerless(pg) {
		return !isKnown
	}
	return pg.Labels[labelManagedBy] == managedBy && len(pg.OwnerReferences) == 0
}

// isOwnerless reports whether a PodGroup was created from its pods, without an object that could
// own it.
func isOwnerless(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[labelManagedBy] == managedBy && pg.Annotations[annotationMadeFrom] == madeFromPods && len(pg.OwnerReferences) == 0
}

// create writes a PodGroup for the first time.
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

// refuse reports why a group is not created: in the conditions of its pods, and once in an event of
// one pod. The text may differ at each attempt, for example by a port number. A new condition of a
// pod causes another attempt, so a new text is written only after repeatDelay.
func (r *Derive) refuse(key types.NamespacedName, g grouping.Group, members *gang.Members, why string) {
	v := gang.Verdict{
		Reason:  gang.ReasonPodGroupNotMade,
		Message: fmt.Sprintf("the PodGroup for %s %s cannot be written, so its pods wait: %s", g.Owner.Kind, g.Owner.Name, why),
	}
	now := r.clock.Now()
	told, ok := r.refused[key]
	if !ok || told.verdict != v && now.Sub(told.at) >= repeatDelay {
		told = writeFailure{verdict: v, at: now}
		r.refused[key] = told
		r.recorder.Eventf(living(members)[0], nil, corev1.EventTypeWarning, v.Reason, "Grouping", "%s", v.Message)
	}
	// Set the reason again: if an earlier group with this name was deleted meanwhile, its record
	// was deleted too.
	r.gangs.SetUnresolved(gang.KeyOf(key), told.verdict)
	r.count(key, len(members.Pending))
	for _, pod := range members.Pending {
		sayHeld(r.say, pod, told.verdict)
	}
}

// living returns the members that a group can be created for.
func living(members *gang.Members) []*corev1.Pod {
	return slices.Concat(members.Pending, members.Gated, members.Assigned)
}

// NewDerivedPodGroup returns the PodGroup to create for a derived group with at least one living
// member. The function queueNamedBy returns the queue that a pod names by itself. It returns an
// error if the group names a PriorityClass that does not exist, because its value is unknown.
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
	followPreemptionClass(pg, g.Choice)
	return pg, nil
}

// follow sets minCount to the number of members that the object needs now. It reports settings of
// the object that differ from the PodGroup and cannot be changed there.
func (r *Derive) follow(ctx context.Context, pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) (reconcile.Result, error) {
	if pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		return reconcile.Result{}, nil
	}
	for _, pod := range members.Pending {
		clearCondition(r.say, pod, gang.ReasonPodGroupNotMade)
	}
	what, again := g.Note, reconcile.Result{}
	lives := len(living(members)) > 0
	if lives {
		now, above, err := policy(g, members, r.queue, r.classes)
		what = cmp.Or(what, above, differs(pg, g), flawOfPreemptionClass(pg, g))
		// If the class no longer exists, the settings are not compared.
		if err == nil {
			due, later := r.isDue(ctx, pg, &now, g, members)
			if due {
				return r.remove(ctx, pg)
			}
			what, again.RequeueAfter = cmp.Or(what, dropped(pg, &now, g)), later
		}
	}
	// Without a living pod, the class cannot be compared, so leave the condition as it is.
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
			// Retry with growing delays. The cache may not show yet that a member has a node, or an
			// admission policy denies the change every time.
			return reconcile.Result{RequeueAfter: r.denied.When(key)}, nil
		}
		return retryConflict(fmt.Errorf("have PodGroup %s follow its object: %w", key, err))
	}
	r.denied.Forget(key)
	return again, nil
}

// FollowObject sets the fields that follow the object: minCount, as far as the API permits, and
// preemptionPriorityClassName. It reports whether that changes the PodGroup.
func FollowObject(pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) bool {
	raised := followPreemptionClass(pg, g.Choice)
	return followCount(pg, g, members) || raised
}

// followCount sets minCount to the number of members that the object needs now.
func followCount(pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) bool {
	if g.Ended || g.Suspended || pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		// Members that terminate must not lower minCount.
		return false
	}
	have, want := pg.Spec.SchedulingPolicy.Gang.MinCount, minCountOf(g, members)
	if have == want || want > have && pg.Status.Scheduled > 0 {
		// The API does not permit a higher minCount while members have a node. Additional members
		// are placed where they fit.
		return false
	}
	pg.Spec.SchedulingPolicy.Gang.MinCount = want
	return true
}

// tell writes the condition FollowsObject and sends an event once. The argument is the difference
// between the PodGroup and its object; "" for none.
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

// apiMessage returns the API server's message in an error.
func apiMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
