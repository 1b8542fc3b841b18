package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

// execution is the state of one order while its victims are evicted.
type execution struct {
	*Executor
	order     *Order
	scheduler Scheduler
	preemptor v1alpha1.DisruptionPreemptor
	claims    []podstatus.Claim
	units     []*unit

	begunMu sync.Mutex
	// begunGroups has the groups of the units whose eviction has begun.
	begunGroups sets.Set[types.NamespacedName]
}

// unit is one victim of the decision, a pod or a whole group, with its pods to delete.
type unit struct {
	victim *core.Victim
	key    types.NamespacedName
	// group is the group that is evicted, or the group of the pod that is evicted. It is empty for
	// a pod without a group.
	group types.NamespacedName
	// message is the text in the unit's condition. podMessage is the text in the conditions of its
	// pods.
	message, podMessage string
	pods                []*corev1.Pod

	mu sync.Mutex
	// listed is true if the intent to evict the unit may have been written to the API.
	listed bool
	// asked is true after begin has called mayBegin. refused is the result of that call.
	asked   bool
	refused error
	// committed is true after a delete was sent that may have succeeded.
	committed bool
	// evicted is true after the delete of any pod of the unit was accepted.
	evicted bool
	// gone has the pods that certainly terminate or no longer exist.
	gone sets.Set[types.UID]
	// announced ensures that the log lines about the unit are written once, when its first pod
	// terminates.
	announced sync.Once
	// recorded ensures that the event of the unit's group is recorded once.
	recorded sync.Once
}

// logValues returns the values that identify the unit in log lines.
func (u *unit) logValues() []any {
	kind := "pod"
	if u.victim.Group {
		kind = "podGroup"
	}
	return []any{kind, klog.KRef(u.key.Namespace, u.key.Name), "rule", u.victim.Rule}
}

// podLogValues returns the values that identify one of the unit's pods in log lines.
func (u *unit) podLogValues(pod *corev1.Pod) []any {
	values := u.logValues()
	if u.victim.Group {
		values = append(values, "pod", klog.KObj(pod))
	}
	return append(values, "node", pod.Spec.NodeName)
}

// named returns a context whose log lines name the rule and the node of a pod of the unit. If the
// unit is a group, they also name the group.
func (u *unit) named(ctx context.Context, pod *corev1.Pod) context.Context {
	values := []any{"rule", u.victim.Rule, "node", pod.Spec.NodeName}
	if u.victim.Group {
		values = append(values, "podGroup", klog.KRef(u.key.Namespace, u.key.Name))
	}
	return klog.NewContext(ctx, klog.FromContext(ctx).WithValues(values...))
}

// begin returns the reason why the eviction of the unit must not begin; nil if it may. It calls
// mayBegin once and then returns the same result.
func (u *unit) begin(mayBegin func(*unit) error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.asked {
		u.asked, u.refused = true, mayBegin(u)
	}
	return u.refused
}

// goes reports whether the unit must be evicted even if the order fails, because a delete of the
// unit may have succeeded.
func (u *unit) goes() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.committed
}

// settle records the result of the removal of one pod.
func (u *unit) settle(became removal, uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch became {
	case accepted:
		u.committed, u.evicted = true, true
		u.gone.Insert(uid)
	case absent:
		u.gone.Insert(uid)
	case uncertain:
		u.committed = true
	case untouched:
	}
}

func newExecution(e *Executor, order *Order, sched Scheduler, claims []podstatus.Claim) *execution {
	x := &execution{Executor: e, order: order, scheduler: sched, preemptor: preemptorOf(&order.Decision), claims: claims, begunGroups: sets.New[types.NamespacedName]()}
	for i := range order.Decision.Victims {
		v := &order.Decision.Victims[i]
		u := &unit{
			victim: v, key: types.NamespacedName{Namespace: v.Namespace, Name: v.Name},
			message: order.Decision.WhyTaken(v), gone: sets.New[types.UID](),
		}
		if u.podMessage = u.message; v.Group {
			u.podMessage = core.ToldMember(u.message, v.Namespace, v.Name)
		}
		for _, p := range v.Pods {
			if pod := order.Victims[types.UID(p.UID)]; pod != nil {
				u.pods = append(u.pods, pod)
			}
		}
		switch {
		case v.Group:
			u.group = u.key
		case len(u.pods) > 0:
			u.group, _ = e.members.GroupOf(u.pods[0])
		}
		x.units = append(x.units, u)
	}
	return x
}

// run carries out the steps of the order. If a step fails, run withdraws the intents of the groups
// without a delete.
func (x *execution) run(ctx context.Context) Outcome {
	groups := x.groups()
	for _, u := range groups {
		x.ledger.begin(u.key)
	}
	defer func() {
		for _, u := range groups {
			x.ledger.end(u.key)
			x.groupDone(u.key)
		}
	}()
	err := x.steps(ctx)
	x.countLostWork()
	if err == nil {
		return Outcome{}
	}
	x.withdrawIntents(ctx)
	var refused refusedError
	begun := x.begun()
	return Outcome{
		Err: err, Begun: begun, Unwanted: errors.Is(err, ErrOutdated) && !x.isWanted(),
		Refused: errors.As(err, &refused) && refused.protected && begun.Len() == 0,
	}
}

func (x *execution) steps(ctx context.Context) error {
	if err := x.probe(ctx); err != nil {
		x.statuses.Drop(x.claims)
		return err
	}
	left, err := each(x.claims, func(c podstatus.Claim) error { return x.persist(ctx, c) })
	x.statuses.Drop(left)
	if err != nil {
		return err
	}
	if !x.isWanted() {
		return errUnwanted
	}
	if slices.ContainsFunc(x.order.Groups, func(group types.NamespacedName) bool { return x.scheduler.RunsAnew(x.order, group) }) {
		return errAnew
	}
	if slices.ContainsFunc(x.units, func(u *unit) bool { return slices.ContainsFunc(u.pods, x.scheduler.HasMoved) }) {
		return errMoved
	}
	x.turnBack(ctx)
	if _, err := each(x.groups(), func(u *unit) error { return x.list(ctx, u) }); err != nil {
		return err
	}
	return x.remove(ctx)
}

// probe tests by dry run, before anything changes, whether victims can be deleted. It tests all
// pods of a unit if the deletion of any of them may be refused.
func (x *execution) probe(ctx context.Context) error {
	var tested []task
	for _, u := range x.units {
		if slices.ContainsFunc(u.pods, func(pod *corev1.Pod) bool { return x.remover.refusals.mayRefuse(pod.Namespace, pod.UID) }) {
			// Pods that are not bound are not deleted.
			tested = append(tested, slices.DeleteFunc(u.tasks(), func(t task) bool { return x.scheduler.IsUnbound(t.pod) })...)
		}
	}
	// Test all pods even if the deletion of one is refused, so that the next decision avoids every
	// pod whose deletion is refused.
	var v vetoes
	_, err := each(tested, func(t task) error {
		if err := x.remover.probe(t.unit.named(ctx, t.pod), t.victim()); err != nil {
			return v.besides(fmt.Errorf("evict pod %s: %w", podKey(t.pod), err))
		}
		return nil
	})
	return cmp.Or(err, v.first)
}

func (x *execution) isWanted() bool { return x.scheduler.Wants(x.order) }

// mayBegin returns the reason why the eviction of a unit must not begin; nil if it may.
func (x *execution) mayBegin(u *unit) error {
	if err := x.outdated(u); err != nil {
		return err
	}
	if slices.ContainsFunc(u.pods, x.scheduler.HasMoved) {
		return errMoved
	}
	if u.group == (types.NamespacedName{}) {
		return nil
	}
	x.begunMu.Lock()
	defer x.begunMu.Unlock()
	if !x.begunGroups.Has(u.group) && x.scheduler.RunsAnew(x.order, u.group) {
		return errAnew
	}
	x.begunGroups.Insert(u.group)
	return nil
}

// outdated returns the reason why a unit must not be evicted any more; nil if it may be. After the
// first delete of the unit, this check no longer applies.
func (x *execution) outdated(u *unit) error {
	if !x.isWanted() {
		return errUnwanted
	}
	if slices.Contains(x.order.Surplus, u.group) && !x.scheduler.KeepsMinCount(u.group) {
		return errShort
	}
	return nil
}

// groups returns the units that are whole groups and have pods to delete.
func (x *execution) groups() []*unit {
	var out []*unit
	for _, u := range x.units {
		if u.victim.Group && len(u.pods) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// persist writes the nomination of a pod of the preemptor. If the pod does not exist, persist
// returns the error of an outdated order, and no victim is evicted.
func (x *execution) persist(ctx context.Context, c podstatus.Claim) error {
	err := x.statuses.Write(ctx, c)
	if hasGone(ctx, x.remover.pods, c.Pod.Namespace, c.Pod.Name, c.Pod.UID, err) {
		return fmt.Errorf("%w: %w", errUnwanted, err)
	}
	return err
}

// turnBack asks the scheduler to return each victim without a binding to the scheduler's queue. It
// removes these victims from their units.
func (x *execution) turnBack(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for _, u := range x.units {
		bound := u.pods[:0]
		for _, pod := range u.pods {
			if !x.scheduler.TurnBack(pod) {
				bound = append(bound, pod)
				continue
			}
			u.gone.Insert(pod.UID)
			logger.V(2).Info("Turned a victim back before it was bound", u.podLogValues(pod)...)
			x.events.by(x.order.Profile).victimPod(pod.Namespace, pod.Name, pod.UID, x.preemptor, u.podMessage+", before it was bound")
		}
		u.pods = bound
	}
}

// list writes the intent to evict a whole group to the group's status.
func (x *execution) list(ctx context.Context, u *unit) error {
	x.ledger.at(u.key, func(e *entry) {
		for _, pod := range u.pods {
			e.seen.Insert(pod.UID)
			e.withdrawn.Delete(pod.UID)
			e.spared.Delete(pod.UID)
		}
	})
	u.mu.Lock()
	u.listed = true
	u.mu.Unlock()
	// write calls this function again after each read of the status. The scheduler records a new
	// run before it writes the run to the status. So there are two cases. This function sees the
	// new run, or the status changes after the read and the write has a conflict.
	_, err := x.intents.write(ctx, &x.order.Decision, u.victim, u.pods, func() error {
		if x.scheduler.RunsAnew(x.order, u.key) {
			return errAnew
		}
		return nil
	})
	switch {
	case err == nil:
		klog.FromContext(ctx).V(6).Info("Listed a group's victims", append(u.logValues(), "victims", len(u.pods))...)
		return nil
	case apierrors.IsNotFound(err):
		// The PodGroup was deleted after the decision.
		return fmt.Errorf("%w: PodGroup %s has gone", ErrOutdated, u.key)
	default:
		return x.noteUnlisted(u, fmt.Errorf("mark PodGroup %s: %w", u.key, err))
	}
}

// noteUnlisted records a refusal for each pod of a group whose intent cannot be written. The group
// cannot be evicted without an intent. If every try ends in a conflict, this also counts as a
// refusal, because the next order would have the same conflicts.
func (x *execution) noteUnlisted(u *unit, err error) error {
	note := x.remover.note
	if apierrors.IsConflict(err) && !isDenied(err) {
		note = x.remover.noteObject
	}
	noted := err
	for _, t := range u.tasks() {
		noted = note(t.victim(), err)
	}
	return noted
}

// task is a pod to delete, with its unit.
type task struct {
	unit *unit
	pod  *corev1.Pod
}

// tasks returns the unit's pods as tasks.
func (u *unit) tasks() []task {
	out := make([]task, len(u.pods))
	for i, pod := range u.pods {
		out[i] = task{unit: u, pod: pod}
	}
	return out
}

// victim returns the pod as a victimPod for the remover.
func (t task) victim() victimPod {
	return victimPod{
		namespace: t.pod.Namespace, name: t.pod.Name, node: t.pod.Spec.NodeName, uid: t.pod.UID, message: t.unit.podMessage,
		grace: t.pod.Spec.TerminationGracePeriodSeconds,
	}
}

// remove deletes the pods of all units, in the order of the units.
func (x *execution) remove(ctx context.Context) error {
	var tasks []task
	for _, u := range x.units {
		tasks = append(tasks, u.tasks()...)
	}
	// After a failed call, the eviction of no further unit begins.
	var failed atomic.Bool
	var mu sync.Mutex
	var going []task
	_, err := each(tasks, func(t task) error {
		if err := t.unit.begin(x.mayBegin); err != nil {
			failed.Store(true)
			return err
		}
		if x.scheduler.HasEnded(t.pod) {
			x.settle(t, absent)
			return nil
		}
		// Setting the condition of the pod takes time. Before the delete, check again whether the
		// order is outdated.
		var outdated error
		became, err := x.remover.remove(t.unit.named(ctx, t.pod), t.victim(), func() bool {
			if t.unit.goes() {
				return true
			}
			if !failed.Load() {
				outdated = x.outdated(t.unit)
			}
			return !failed.Load() && outdated == nil
		})
		if err != nil || outdated != nil {
			failed.Store(true)
		}
		x.settle(t, became)
		if became == accepted {
			t.unit.announce(klog.FromContext(ctx))
			x.lost(t.pod)
			mu.Lock()
			going = append(going, t)
			mu.Unlock()
		}
		if err != nil {
			return fmt.Errorf("evict pod %s: %w", podKey(t.pod), err)
		}
		return outdated
	})
	// Events are API calls too. The outcome does not wait for these calls, so they do not delay the
	// binding of the preemptor.
	x.running.Go(func() {
		x.noteMembers(going)
		for _, t := range going {
			// Wait returns an error when the process ends. The remaining events are then recorded
			// without a pause.
			_ = x.pace.Wait(x.ctx)
			x.record(t.unit, t.pod)
		}
	})
	return err
}

// settle records the result of a removal in the unit. For a whole group, it also records the result
// in the ledger.
func (x *execution) settle(t task, became removal) {
	t.unit.settle(became, t.pod.UID)
	if t.unit.victim.Group {
		x.ledger.note(t.unit.key, t.pod.UID, became)
	}
}

// lost adds the work that is lost with a pod to the metrics. A pod that has not started loses no
// work.
func (x *execution) lost(pod *corev1.Pod) {
	if start := pod.Status.StartTime; start != nil {
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		x.metrics.Lost(requests, x.clock.Since(start.Time), x.order.Profile)
	}
}

// noteMembers records in the status of PodGroups which members were evicted one by one. It leaves
// out groups that are evicted as a whole, because their intents already have the pods.
func (x *execution) noteMembers(going []task) {
	type loss struct {
		rule core.Rule
		pods []string
	}
	losses := make(map[types.NamespacedName]*loss)
	var order []types.NamespacedName
	for _, t := range going {
		key, member := x.members.GroupOf(t.pod)
		if t.unit.victim.Group || !member {
			continue
		}
		if losses[key] == nil {
			losses[key] = &loss{rule: t.unit.victim.Rule}
			order = append(order, key)
		}
		losses[key].pods = append(losses[key].pods, t.pod.Name)
	}
	for _, key := range order {
		if err := x.intents.note(x.ctx, key, x.preemptor, string(losses[key].rule), stopsOf(&x.order.Decision, key), losses[key].pods); err != nil {
			klog.FromContext(x.ctx).Error(err, "Left a PodGroup without the record of a preemption", "podGroup", klog.KRef(key.Namespace, key.Name))
		}
	}
}

// announce logs that a unit is evicted, once for each unit.
func (u *unit) announce(logger klog.Logger) {
	u.announced.Do(func() {
		logger.V(2).Info("Preempted a victim", append(u.logValues(), "victims", len(u.pods))...)
		logger.V(4).Info("Why a victim was preempted", append(u.logValues(), "reason", u.message)...)
	})
}

// record records the event of a pod that is evicted. With the first pod of a group, it also records
// the event of the group.
func (x *execution) record(u *unit, pod *corev1.Pod) {
	by := x.events.by(x.order.Profile)
	if u.victim.Group {
		u.recorded.Do(func() { by.victimGroup(u.victim, x.preemptor, u.message) })
	}
	by.victimPod(pod.Namespace, pod.Name, pod.UID, x.preemptor, u.podMessage)
}

// withdrawIntents withdraws the intents of the groups without a delete. If a call fails, the
// Finisher withdraws the intent later: the ledger has the pods that must stay.
func (x *execution) withdrawIntents(ctx context.Context) {
	if x.ctx.Err() != nil {
		// The process ends. The next leader completes the intents that are written.
		return
	}
	ctx, cancel := x.bind(context.WithoutCancel(ctx))
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, withdrawTimeout)
	defer stop()
	_, _ = each(x.groups(), func(u *unit) error {
		if !u.listed || u.committed {
			return nil
		}
		uids := sets.New[types.UID]()
		for _, pod := range u.pods {
			uids.Insert(pod.UID)
		}
		if err := x.withdraw(ctx, u.key, uids); err != nil {
			klog.FromContext(ctx).Error(err, "The finisher will withdraw the intent of a preemption", u.logValues()...)
		}
		return nil
	})
}

// withdraw removes pods from the intent of a group. If the call fails, the ledger keeps the pods
// for a later try. A pod that a newer order has listed stays in the intent.
func (e *Executor) withdraw(ctx context.Context, key types.NamespacedName, uids sets.Set[types.UID]) error {
	e.ledger.at(key, func(en *entry) { en.withdrawn = en.withdrawn.Union(uids) })
	if err := e.intents.withdraw(ctx, key, func() sets.Set[types.UID] { return e.ledger.withdrawn(key).Intersection(uids) }); err != nil {
		return fmt.Errorf("take the preemption of PodGroup %s back: %w", key, err)
	}
	e.ledger.at(key, func(en *entry) {
		// If a newer order has listed a pod, the pod is no longer in withdrawn.
		en.spared = en.spared.Union(en.withdrawn.Intersection(uids))
		en.withdrawn = en.withdrawn.Difference(uids)
	})
	klog.FromContext(ctx).V(2).Info("Canceled a preemption", "podGroup", klog.KRef(key.Namespace, key.Name), "victims", len(uids))
	return nil
}

// begun returns the pods that are evicted although the order failed.
func (x *execution) begun() sets.Set[types.UID] {
	out := sets.New[types.UID]()
	for _, u := range x.units {
		out = out.Union(u.gone)
		if u.victim.Group && u.committed {
			for _, pod := range u.pods {
				out.Insert(pod.UID)
			}
		}
	}
	return out
}
