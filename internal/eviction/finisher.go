package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/native"
)

// lookAgain is the interval between checks of a group whose pods terminate. It matters only if no
// event reports that a pod is gone.
const lookAgain = 30 * time.Second

// Members lists the members of a group, including finished members.
type Members interface {
	Members(key types.NamespacedName) gang.Members
}

// Finisher completes the preemptions of whole groups that no execution in this process works on. It
// evicts the pods in the group's intent (status.disruption). It removes a pod from the intent if
// the preemption of the pod was given up. It ends the disruption when the last pod of the intent is
// gone. Run it only on the leader.
type Finisher struct {
	*Executor
	groups  client.Reader
	pods    corelisters.PodLister
	members Members
	delays  *delays
	// timeout returns how long the Finisher tries to delete a member whose deletion is refused
	// although other members of its group were evicted.
	timeout func() time.Duration
}

var _ reconcile.Reconciler = (*Finisher)(nil)

// NewFinisher returns a Finisher that shares the ledger of an Executor. It reads PodGroups from
// groups, which may be a cache. It reads pods from pods, which may lack finished pods, and from
// members. If the deletion of a member is refused for longer than timeout, the member stays,
// although other members of its group were evicted.
func NewFinisher(e *Executor, groups client.Reader, pods corelisters.PodLister, members Members, timeout func() time.Duration) *Finisher {
	e.ledger.keep()
	return &Finisher{Executor: e, groups: groups, pods: pods, members: members, delays: newDelays(e.clock), timeout: timeout}
}

// Reconcile does all steps for one PodGroup that are possible now. If it returns an error, the
// caller must retry with growing delays.
func (f *Finisher) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req.NamespacedName
	var pg v1alpha1.PodGroup
	err := f.groups.Get(ctx, key, &pg)
	if apierrors.IsNotFound(err) {
		f.ledger.drop(key)
		f.delays.forget(key)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get PodGroup %s: %w", key, err)
	}
	known := f.ledger.read(key)
	if known != nil && known.running > 0 {
		// An execution works on the group. When it ends, Reconcile is called again.
		return reconcile.Result{}, nil
	}
	if pg.Status.Disruption == nil {
		return f.without(ctx, key, &pg, known)
	}
	return f.with(ctx, key, pg.Status.Disruption)
}

// without handles a group without an intent, according to f.groups. The cache may lag behind.
func (f *Finisher) without(ctx context.Context, key types.NamespacedName, pg *v1alpha1.PodGroup, known *entry) (reconcile.Result, error) {
	f.delays.forget(key)
	if known != nil && known.withdrawn.Len() > 0 {
		// The cache may not show the intent yet, so withdraw it.
		if err := f.withdraw(ctx, key, known.withdrawn); err != nil {
			return reconcile.Result{}, err
		}
	}
	// On a native PodGroup (scheduling.k8s.io), another scheduler may have set the condition. On
	// other PodGroups, only Reprieve sets it, always together with an intent. So a condition
	// without an intent is outdated.
	if !native.IsNative(pg) && meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionDisruptionTarget) {
		if err := f.intents.close(ctx, key, nil); err != nil {
			return reconcile.Result{}, fmt.Errorf("end the disruption of PodGroup %s: %w", key, err)
		}
	}
	if f.ledger.prune(key) {
		return reconcile.Result{RequeueAfter: memory}, nil
	}
	return reconcile.Result{}, nil
}

// with handles a group whose status has an intent.
func (f *Finisher) with(ctx context.Context, key types.NamespacedName, d *v1alpha1.PodGroupDisruption) (reconcile.Result, error) {
	l := f.sort(key, d)
	if l.withdrawn.Len() > 0 {
		if err := f.withdraw(ctx, key, l.withdrawn); err != nil {
			return reconcile.Result{}, err
		}
	}
	if len(l.left) > 0 {
		if wait := f.delays.left(key); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		if err := f.complete(ctx, key, d, &l); err != nil {
			f.delays.putOff(key)
			return reconcile.Result{}, f.giveUp(ctx, key, d, err)
		}
		l = f.sort(key, d)
	}
	f.delays.forget(key)
	if l.gone.Len() > 0 && l.gone.Len() == len(d.Pods)-l.withdrawn.Len() {
		if err := f.intents.close(ctx, key, l.gone); err != nil {
			return reconcile.Result{}, fmt.Errorf("end the disruption of PodGroup %s: %w", key, err)
		}
		klog.FromContext(ctx).V(2).Info("A group's victims have gone", "podGroup", klog.KRef(key.Namespace, key.Name), "victims", len(l.gone))
	}
	return reconcile.Result{RequeueAfter: lookAgain}, nil
}

// list has the pods of a group's intent, sorted by their next step.
type list struct {
	// left has the pods to evict.
	left []v1alpha1.DisruptedPod
	// gone has the pods that no longer exist or have finished. A terminating pod is neither in the
	// field left nor in the field gone.
	gone sets.Set[types.UID]
	// withdrawn has the pods that must be removed from the intent.
	withdrawn sets.Set[types.UID]
}

// isWhole reports whether no pod of the group was evicted. This is so if the field left has all
// pods of the intent, except the withdrawn ones.
func (l *list) isWhole(d *v1alpha1.PodGroupDisruption) bool {
	return len(l.left) == len(d.Pods)-l.withdrawn.Len()
}

func (f *Finisher) sort(key types.NamespacedName, d *v1alpha1.PodGroupDisruption) list {
	m := f.members.Members(key)
	finished := sets.New[types.UID]()
	for _, pod := range append(m.Succeeded, m.Finished...) {
		finished.Insert(pod.UID)
	}
	out := list{gone: sets.New[types.UID](), withdrawn: sets.New[types.UID]()}
	f.ledger.at(key, func(e *entry) {
		for _, p := range d.Pods {
			pod, err := f.pods.Pods(key.Namespace).Get(p.Name)
			present := err == nil && pod.UID == p.UID
			if present {
				e.seen.Insert(p.UID)
			}
			switch {
			case e.withdrawn.Has(p.UID) || e.spared.Has(p.UID):
				out.withdrawn.Insert(p.UID)
			case finished.Has(p.UID):
				out.gone.Insert(p.UID)
			case present && (pod.DeletionTimestamp != nil || e.accepted.Has(p.UID)):
			case present:
				out.left = append(out.left, p)
			case e.seen.Has(p.UID) || e.absent.Has(p.UID):
				out.gone.Insert(p.UID)
			default:
				// The informer has never shown this pod, maybe because it is late. So ask the API
				// server whether the pod exists.
				out.left = append(out.left, p)
			}
		}
	})
	return out
}

// complete evicts the remaining pods of a group with an intent.
func (f *Finisher) complete(ctx context.Context, key types.NamespacedName, d *v1alpha1.PodGroupDisruption, l *list) error {
	start, left := f.clock.Now(), l.left
	logger := klog.FromContext(ctx).WithValues(
		"podGroup", klog.KRef(key.Namespace, key.Name), "preemptor", klog.KRef(d.Preemptor.Namespace, d.Preemptor.Name), "rule", d.Rule)
	logger.V(2).Info("Finishing a preemption that was begun", "victims", len(left))
	logger.V(4).Info("Why a victim was preempted", "reason", d.Message)
	ctx = klog.NewContext(ctx, logger)
	pods := make([]victimPod, len(left))
	for i, p := range left {
		pods[i] = victimPod{
			namespace: key.Namespace, name: p.Name, uid: p.UID,
			message: core.ToldMember(d.Message, key.Namespace, key.Name),
		}
		if pod, err := f.pods.Pods(key.Namespace).Get(p.Name); err == nil && pod.UID == p.UID {
			pods[i].conditions, pods[i].node, pods[i].grace = pod.Status.Conditions, pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds
		}
	}
	err := f.ask(ctx, key, d, l, pods)
	if err == nil {
		err = f.removeAll(ctx, key, d, pods)
	}
	result := metrics.Success
	if err != nil {
		result = metrics.Failure
	}
	f.metrics.Ran(metrics.Completion, result, "", f.clock.Since(start))
	return err
}

// ask tests by dry run whether all pods can be deleted. It does so only if no pod was evicted as
// far as this process can see, because the preemption can then still be withdrawn.
func (f *Finisher) ask(ctx context.Context, key types.NamespacedName, d *v1alpha1.PodGroupDisruption, l *list, pods []victimPod) error {
	if !l.isWhole(d) {
		return nil
	}
	_, err := each(pods, func(pod victimPod) error { return inGroup(pod, f.remover.probe(ctx, pod)) })
	if err == nil || !isVeto(err) {
		return err
	}
	touched, lookErr := f.isTouched(ctx, key, l)
	if touched {
		return nil
	}
	return errors.Join(err, lookErr)
}

// removeAll evicts all pods that can be deleted. If the deletion of a pod is refused, it continues
// with the other pods.
func (f *Finisher) removeAll(ctx context.Context, key types.NamespacedName, d *v1alpha1.PodGroupDisruption, pods []victimPod) error {
	var v vetoes
	_, err := each(pods, func(pod victimPod) error {
		became, err := f.remover.remove(ctx, pod, func() bool { return true })
		f.ledger.note(key, pod.uid, became)
		if became == accepted {
			f.events.victimPod(pod.namespace, pod.name, pod.uid, d.Preemptor, pod.message)
		}
		return v.besides(inGroup(pod, err))
	})
	return cmp.Or(err, v.first)
}

// inGroup adds the name of the pod to an error; nil stays nil.
func inGroup(pod victimPod, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("evict pod %s/%s of a group that has begun to go: %w", pod.namespace, pod.name, err)
}

// giveUp withdraws members whose deletion was refused in a try that failed. If the group is intact
// (see isIntact), it withdraws all members. Otherwise it withdraws only members that were refused
// for longer than the timeout. It returns the error that remains.
func (f *Finisher) giveUp(ctx context.Context, key types.NamespacedName, d *v1alpha1.PodGroupDisruption, failed error) error {
	if !isVeto(failed) {
		return failed
	}
	l, stay := f.sort(key, d), sets.New[types.UID]()
	intact, err := f.isIntact(ctx, key, d, &l)
	if err != nil {
		return errors.Join(failed, err)
	}
	for _, p := range l.left {
		if intact || f.remover.refusals.lasting(p.UID) > f.timeout() {
			stay.Insert(p.UID)
		}
	}
	if stay.Len() == 0 {
		return failed
	}
	if err := f.withdraw(ctx, key, stay); err != nil {
		return err
	}
	klog.FromContext(ctx).Error(failed, "Let members of a group stay whose deletion is refused",
		"podGroup", klog.KRef(key.Namespace, key.Name), "victims", stay.Len(), "others have gone", !intact)
	if intact {
		return nil
	}
	for _, p := range l.left {
		if stay.Has(p.UID) {
			f.events.refused(key.Namespace, p.Name, p.UID, d.Preemptor, failed)
		}
	}
	return nil
}

// isIntact reports whether certainly no pod of a group was evicted. The API server has all pods of
// the intent, no pod terminates, and no failed delete call is so recent that it may still succeed.
func (f *Finisher) isIntact(ctx context.Context, key types.NamespacedName, d *v1alpha1.PodGroupDisruption, l *list) (bool, error) {
	last := d.Time.Time
	if known := f.ledger.read(key); known != nil && known.unsure.After(last) {
		last = known.unsure
	}
	if f.clock.Since(last) < memory || f.delays.lasting(key) < memory || !l.isWhole(d) {
		return false, nil
	}
	touched, err := f.isTouched(ctx, key, l)
	return !touched && err == nil, err
}

// isTouched reports whether any remaining pod terminates or no longer exists, according to the API
// server.
func (f *Finisher) isTouched(ctx context.Context, key types.NamespacedName, l *list) (bool, error) {
	errTouched := errors.New("touched")
	_, err := each(l.left, func(p v1alpha1.DisruptedPod) error {
		pod, err := find(ctx, f.remover.pods, key.Namespace, p.Name, p.UID)
		switch {
		case err != nil:
			return fmt.Errorf("look at pod %s/%s of a group that may have begun to go: %w", key.Namespace, p.Name, err)
		case pod == nil:
			f.ledger.note(key, p.UID, absent)
			return errTouched
		case pod.DeletionTimestamp != nil:
			return errTouched
		}
		return nil
	})
	if errors.Is(err, errTouched) {
		return true, nil
	}
	return false, err
}
