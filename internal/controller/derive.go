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
	// labelManagedBy marks the PodGroups that Reprieve creates.
	labelManagedBy, managedBy = gang.LabelManagedBy, gang.ManagedBy
	// annotationMadeFrom marks the PodGroups that Reprieve creates and that have no owner.
	annotationMadeFrom, madeFromPods = v1alpha1.GroupName + "/made-from", "pods"
)

// Derived describes derived groups: groups of pods without a PodGroup. Reprieve creates a PodGroup
// for each.
type Derived interface {
	Holds
	// Group describes a derived group; false for any other group.
	Group(key types.NamespacedName) (grouping.Group, bool)
	// Recall registers a derived group whose PodGroup has this owner. An earlier process may have
	// created the PodGroup, and the group may have no pods now.
	Recall(key types.NamespacedName, owner types.UID)
	// SetOutside records whether a derived group is placed outside of the tree that it is a part
	// of; see [IsOutside].
	SetOutside(key types.NamespacedName, outside bool)
}

// Derive writes the PodGroups of derived groups; see [Derived]. It creates a PodGroup once there
// are pods for it. It updates minCount from the object that owns the pods, as far as the API
// permits. It deletes the PodGroup when the work is over. If the object is deleted, the garbage
// collector deletes the PodGroup.
type Derive struct {
	writer
	derived Derived
	say     func(*corev1.Pod, corev1.PodCondition)
	clock   clock.PassiveClock
	// refused maps groups to the reasons why their PodGroups cannot be written.
	refused map[types.NamespacedName]writeFailure
	// figure is called with the number of pods that wait for a PodGroup in refused, each time that
	// number changes.
	figure func(reason string, pods int)
	// waiting maps each group in refused to the number of its pods that wait for the PodGroup.
	waiting map[types.NamespacedName]int
	// noTrees is the reason why Derive cannot write CompositePodGroups; "" if it can.
	noTrees string
	// denied computes the retry delays of groups whose minCount is outdated because the API server
	// rejects the change.
	denied workqueue.TypedRateLimiter[types.NamespacedName]
}

// writeFailure is the reason why a PodGroup cannot be written, and the time when the group's pods
// last reported it.
type writeFailure struct {
	verdict gang.Verdict
	at      time.Time
}

var _ reconcile.Reconciler = (*Derive)(nil)

// NewDerive returns a Derive. queueNamedBy returns the queue that a pod itself names. If a PodGroup
// cannot be written, Derive records the reason in gangs, and say writes it as a condition of the
// pods. figure receives the number of these pods. Run Derive with one worker, because it remembers
// its reports without a lock.
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

// Reconcile creates, updates or deletes the PodGroup or CompositePodGroup of one derived group.
func (r *Derive) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req.NamespacedName
	if gang.IsTree(key) && r.noTrees != "" {
		return reconcile.Result{}, nil
	}
	var pg v1alpha1.PodGroup
	err := r.client.Get(ctx, key, &pg)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("get %s: %w", gang.Title(key), err)
	}
	if exists {
		r.count(key, 0)
		for _, owner := range pg.OwnerReferences {
			r.derived.Recall(key, owner.UID)
		}
	}
	g, ok := r.groupOf(key, &pg, exists)
	abandoned := exists && isAbandoned(&pg, ok)
	if !ok && !abandoned {
		r.forget(key)
		return reconcile.Result{}, nil
	}
	d := r.derivationOf(key, g)
	switch {
	case abandoned && d.Members.Total() == 0 && pg.Status.Disruption == nil:
		return r.removeLast(ctx, &pg)
	case !ok:
		r.forget(key)
		return reconcile.Result{}, nil
	case exists:
		return r.level(ctx, &pg, d)
	case !g.Ended && len(living(d.Members)) > 0:
		return r.create(ctx, d)
	default:
		r.forget(key)
		return reconcile.Result{}, nil
	}
}

// forget drops the facts about a group that Derive no longer writes.
func (r *Derive) forget(key types.NamespacedName) {
	r.written(key)
	delete(r.made, key)
}

// written clears the failure of a group whose PodGroup was written: its reason, and the delays of
// its retries.
func (r *Derive) written(key types.NamespacedName) {
	r.denied.Forget(key)
	r.count(key, 0)
	if _, ok := r.refused[key]; ok {
		delete(r.refused, key)
		r.gangs.SetUnresolved(gang.KeyOf(key), gang.Verdict{})
	}
}

// count records the number of pods that wait for a PodGroup that cannot be written.
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

// level updates an existing PodGroup from its object, or deletes the PodGroup when its run is over.
func (r *Derive) level(ctx context.Context, pg *v1alpha1.PodGroup, d *Derivation) (reconcile.Result, error) {
	g, members := d.Group, d.Members
	// If the work is finished, or the pods have no owner, the PodGroup stays until its last pod is
	// deleted. Until then, it shows the status of the work.
	over := g.Ended || g.Suspended || g.Surplus || (g.Ownerless || g.Finished) && members.Total() == 0
	switch {
	case g.Ended && isAbandoned(pg, true):
		// The garbage collector or a later call deletes this PodGroup after its pods are gone. Do
		// not change it until then.
		return reconcile.Result{}, nil
	case !BelongsTo(pg, g):
		return r.tell(ctx, pg, fmt.Sprintf("it is not owned by %s %s, for whose pods it would be made, and is left as it is; delete it",
			g.Owner.Kind, g.Owner.Name))
	case over && len(living(members))+len(members.Terminating) == 0 && pg.Status.Disruption == nil:
		return r.removeLast(ctx, pg)
	default:
		return r.follow(ctx, pg, d)
	}
}

// BelongsTo reports whether a PodGroup was created for a derived group. If the group has an object,
// that is so if the object owns the PodGroup. Otherwise, an annotation of the PodGroup names the
// derived group.
func BelongsTo(pg *v1alpha1.PodGroup, g grouping.Group) bool {
	if g.Ownerless {
		return isOwnerless(pg)
	}
	return slices.ContainsFunc(pg.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == g.Owner.UID })
}

// isAbandoned reports whether a PodGroup that Reprieve created has lost the reason for its
// existence. There are two cases:
//
//   - It was created for pods without an owner, and these pods are gone. isKnown is false then.
//   - Its owner was deleted without its dependents.
func isAbandoned(pg *v1alpha1.PodGroup, isKnown bool) bool {
	if isOwnerless(pg) {
		return !isKnown
	}
	return pg.Labels[labelManagedBy] == managedBy && len(pg.OwnerReferences) == 0
}

// isOwnerless reports whether Reprieve created a PodGroup for pods without an owner.
func isOwnerless(pg *v1alpha1.PodGroup) bool {
	return pg.Labels[labelManagedBy] == managedBy && pg.Annotations[annotationMadeFrom] == madeFromPods && len(pg.OwnerReferences) == 0
}

// create writes the PodGroup of a derived group for the first time.
func (r *Derive) create(ctx context.Context, d *Derivation) (reconcile.Result, error) {
	key := d.Key
	if ready, err := r.createTree(ctx, d); err != nil || !ready {
		return reconcile.Result{}, err
	}
	pg, err := NewDerivedPodGroup(d, r.queue, r.classes)
	if err != nil {
		r.refuse(d, err.Error())
		return reconcile.Result{RequeueAfter: classDelay}, nil
	}
	if err := FollowTree(pg, d, r.find(ctx)); err != nil {
		return reconcile.Result{}, fmt.Errorf("compare %s with its tree: %w", gang.Title(key), err)
	}
	settings := settingsOf(&pg.Spec.PodGroupPolicy)
	err = r.client.Create(ctx, pg)
	switch {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		r.refuse(d, apiMessage(err))
		return reconcile.Result{}, fmt.Errorf("create %s: %w", gang.Title(key), err)
	}
	r.written(key)
	r.made[key] = settings
	return reconcile.Result{}, nil
}

// refuse reports why a PodGroup is not created: in a condition of each pod, and once in an event of
// one pod. A new condition triggers the next attempt, and the text of the error may differ each
// time, for example in a port number. So within repeatDelay, refuse does not write another text.
func (r *Derive) refuse(d *Derivation, why string) {
	key, members := d.Key, d.Members
	v := gang.Verdict{
		Reason:  gang.ReasonPodGroupNotMade,
		Message: fmt.Sprintf("the %s for %s %s cannot be written, so its pods wait: %s", kindOf(&d.Group), d.Owner.Kind, d.Owner.Name, why),
	}
	now := r.clock.Now()
	told, ok := r.refused[key]
	if !ok || told.verdict != v && now.Sub(told.at) >= repeatDelay {
		told = writeFailure{verdict: v, at: now}
		r.refused[key] = told
		r.recorder.Eventf(living(members)[0], nil, corev1.EventTypeWarning, v.Reason, "Grouping", "%s", v.Message)
	}
	// Record the reason again. If an earlier group with this name was deleted since the last
	// report, the record was deleted too.
	r.gangs.SetUnresolved(gang.KeyOf(key), told.verdict)
	r.count(key, len(members.Pending))
	for _, pod := range members.Pending {
		sayHeld(r.say, pod, told.verdict)
	}
}

// living returns the members that count when a PodGroup is created: the pending, gated and assigned
// ones.
func living(members *gang.Members) []*corev1.Pod {
	return slices.Concat(members.Pending, members.Gated, members.Assigned)
}

// NewDerivedPodGroup returns the PodGroup to create for a derived group that has at least one
// living member. For a tree, it returns the PodGroup that stands for the CompositePodGroup; see
// [gang.ToComposite]. queueNamedBy returns the queue that a pod itself names. The function returns
// an error if the group names a PriorityClass that does not exist.
func NewDerivedPodGroup(d *Derivation, queueNamedBy func(*corev1.Pod) string, classes schedulinglisters.PriorityClassLister) (*v1alpha1.PodGroup, error) {
	made, _, err := policy(d, queueNamedBy, classes)
	if err != nil {
		return nil, err
	}
	key, g := d.Key, d.Group
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

// follow updates the fields of a PodGroup that may change: minCount and
// preemptionPriorityClassName. It reports settings of the object that differ from the PodGroup and
// cannot be changed in it.
func (r *Derive) follow(ctx context.Context, pg *v1alpha1.PodGroup, d *Derivation) (reconcile.Result, error) {
	g, members := d.Group, d.Members
	if pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		return reconcile.Result{}, nil
	}
	for _, pod := range members.Pending {
		clearCondition(r.say, pod, gang.ReasonPodGroupNotMade)
	}
	what, again := g.Note, reconcile.Result{}
	lives := len(living(members)) > 0
	if lives {
		now, above, err := policy(d, r.queue, r.classes)
		what = cmp.Or(what, above, differs(pg, g), flawOfPreemptionClass(pg, g))
		// Without the PriorityClass, the settings of the object are not known, so do not compare
		// them.
		if err == nil {
			due, later := r.isDue(ctx, pg, &now, d)
			if due {
				return r.remove(ctx, pg)
			}
			what, again.RequeueAfter = cmp.Or(what, dropped(pg, &now, g)), later
		}
	}
	// Without a living pod, there is no class to compare with. So leave the condition unchanged.
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
			// Retry with growing delays. Either the cache does not show yet that a member has a
			// node, or an admission policy always denies the change.
			return reconcile.Result{RequeueAfter: r.denied.When(key)}, nil
		}
		return retryConflict(fmt.Errorf("update %s from its object: %w", gang.Title(key), err))
	}
	r.denied.Forget(key)
	return again, nil
}

// FollowObject updates the fields of a PodGroup that may change after its creation: minCount, as
// far as the API permits, and preemptionPriorityClassName. It reports whether a field has changed.
func FollowObject(pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) bool {
	raised := followPreemptionClass(pg, g.Choice)
	return followCount(pg, g, members) || raised
}

// followCount sets minCount to the number of members that the object needs now. It reports whether
// minCount has changed.
func followCount(pg *v1alpha1.PodGroup, g grouping.Group, members *gang.Members) bool {
	if g.Ended || g.Suspended || pg.Spec.SchedulingPolicy == nil || pg.Spec.SchedulingPolicy.Gang == nil {
		// Do not lower minCount because members terminate.
		return false
	}
	have, want := pg.Spec.SchedulingPolicy.Gang.MinCount, minCountOf(g, members)
	if have == want || want > have && pg.Status.Scheduled > 0 {
		// While members have a node, the API does not permit a higher minCount. The additional
		// members are placed where they fit.
		return false
	}
	pg.Spec.SchedulingPolicy.Gang.MinCount = want
	return true
}

// tell writes the condition FollowsObject, and sends an event once. The argument describes how the
// PodGroup differs from its object; "" for no difference.
func (r *Derive) tell(ctx context.Context, pg *v1alpha1.PodGroup, what string) (reconcile.Result, error) {
	c := metav1.Condition{
		Type: v1alpha1.ConditionFollowsObject, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonObjectNotFollowed, Message: what,
		ObservedGeneration: pg.Generation,
	}
	said := meta.FindStatusCondition(pg.Status.Conditions, c.Type)
	if what == "" {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonObjectFollowed, "the "+kindWritten(pg)+" is as its object asks"
	}
	if said == nil && what == "" || said != nil && said.Status == c.Status && said.Message == c.Message {
		return reconcile.Result{}, nil
	}
	before := pg.DeepCopy()
	meta.SetStatusCondition(&pg.Status.Conditions, c)
	if err := r.client.Status().Patch(ctx, pg, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return retryConflict(fmt.Errorf("write status of %s: %w", gang.Title(client.ObjectKeyFromObject(pg)), err))
	}
	if what != "" {
		r.recorder.Eventf(regarding(pg), nil, corev1.EventTypeWarning, c.Reason, "Grouping", "%s", what)
	}
	return reconcile.Result{}, nil
}

// apiMessage returns the API server's message if the error has one, and otherwise the text of the
// error.
func apiMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
