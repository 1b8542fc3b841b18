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

// execution is one order while it is being carried out.
type execution struct {
	*Executor
	order     *Order
	scheduler Scheduler
	preemptor v1alpha1.DisruptionPreemptor
	claims    []podstatus.Claim
	units     []*unit

	begunMu sync.Mutex
	// begunGroups are those of which a unit has been begun.
	begunGroups sets.Set[types.NamespacedName]
}

// unit is a victim unit of the decision, with those of its pods that have to be deleted.
type unit struct {
	victim *core.Victim
	key    types.NamespacedName
	// group is the one that goes, or that the pod is a member of; empty for none.
	group types.NamespacedName
	// message says to the unit why it goes, and podMessage to its pods.
	message, podMessage string
	pods                []*corev1.Pod

	mu sync.Mutex
	// listed is true where the API may have the intent to remove the unit.
	listed bool
	// refused is why it was not begun when its turn came, once that has been asked.
	asked   bool
	refused error
	// committed is true once a delete has been sent that may have come through.
	committed bool
	// gone are the pods that are certainly on their way out.
	gone sets.Set[types.UID]
	// announced is when the first of its pods is on its way out.
	announced sync.Once
	// recorded is when its group has its event.
	recorded sync.Once
}

// logValues name the unit in log lines.
func (u *unit) logValues() []any {
	kind := "pod"
	if u.victim.Group {
		kind = "podGroup"
	}
	return []any{kind, klog.KRef(u.key.Namespace, u.key.Name), "rule", u.victim.Rule}
}

// podLogValues name one of its pods.
func (u *unit) podLogValues(pod *corev1.Pod) []any {
	values := u.logValues()
	if u.victim.Group {
		values = append(values, "pod", klog.KObj(pod))
	}
	return append(values, "node", pod.Spec.NodeName)
}

// named is a context for the steps about one of its pods, whose log lines name the group as well.
func (u *unit) named(ctx context.Context, pod *corev1.Pod) context.Context {
	values := []any{"rule", u.victim.Rule, "node", pod.Spec.NodeName}
	if u.victim.Group {
		values = append(values, "podGroup", klog.KRef(u.key.Namespace, u.key.Name))
	}
	return klog.NewContext(ctx, klog.FromContext(ctx).WithValues(values...))
}

// begin reports why the unit is not to go, which is asked once; nil where it is.
func (u *unit) begin(mayBegin func(*unit) error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.asked {
		u.asked, u.refused = true, mayBegin(u)
	}
	return u.refused
}

// goes reports whether the unit goes in any case.
func (u *unit) goes() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.committed
}

// settle records what has become of a pod.
func (u *unit) settle(became removal, uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch became {
	case accepted:
		u.committed = true
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

// run carries the order out, or as little of it as possible.
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
	if err == nil {
		return Outcome{}
	}
	x.takeBack(ctx)
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

// probe asks, before anything is touched, whether those victims can be deleted of which that is in doubt, and all that go with them.
func (x *execution) probe(ctx context.Context) error {
	var doubtful []task
	for _, u := range x.units {
		if slices.ContainsFunc(u.pods, func(pod *corev1.Pod) bool { return x.remover.refusals.doubts(pod.Namespace, pod.UID) }) {
			// What is not bound will not be deleted.
			doubtful = append(doubtful, slices.DeleteFunc(u.tasks(), func(t task) bool { return x.scheduler.IsUnbound(t.pod) })...)
		}
	}
	// All are asked about, so that the next decision knows of all that are refused.
	var v vetoes
	_, err := each(doubtful, func(t task) error {
		if err := x.remover.probe(t.unit.named(ctx, t.pod), t.victim()); err != nil {
			return v.besides(fmt.Errorf("evict pod %s: %w", podKey(t.pod), err))
		}
		return nil
	})
	return cmp.Or(err, v.first)
}

func (x *execution) isWanted() bool { return x.scheduler.Wants(x.order) }

// mayBegin reports why a unit is not to be begun; nil where it is.
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

// outdated reports why none of a unit is to go by now, as long as none does; nil where it may.
func (x *execution) outdated(u *unit) error {
	if !x.isWanted() {
		return errUnwanted
	}
	if slices.Contains(x.order.Surplus, u.group) && !x.scheduler.KeepsMinCount(u.group) {
		return errShort
	}
	return nil
}

// groups are the units that go whole, and of which something has to be deleted.
func (x *execution) groups() []*unit {
	var out []*unit
	for _, u := range x.units {
		if u.victim.Group && len(u.pods) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// persist tells the API where a pod of the preemptor goes. No victim goes for a pod that has gone itself.
func (x *execution) persist(ctx context.Context, c podstatus.Claim) error {
	err := x.statuses.Write(ctx, c)
	if hasGone(ctx, x.remover.pods, c.Pod.Namespace, c.Pod.Name, c.Pod.UID, err) {
		return fmt.Errorf("%w: %w", errUnwanted, err)
	}
	return err
}

// turnBack sends victims that are not bound yet back to the queue.
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

// list writes the intent to remove a whole group.
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
	// Asked again after each read of the status: one that tells of a new run has been written after that run was known here, and one that
	// is written after the read makes a conflict.
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
		// The pods are not what they were when they were chosen.
		return fmt.Errorf("%w: PodGroup %s has gone", ErrOutdated, u.key)
	default:
		err = fmt.Errorf("mark PodGroup %s: %w", u.key, err)
		// A group that may not be listed cannot go whole: it is as if the deletion of each of its pods had been refused.
		noted := err
		for _, t := range u.tasks() {
			noted = x.remover.note(t.victim(), err)
		}
		return noted
	}
}

// task is a pod to be deleted, with its unit.
type task struct {
	unit *unit
	pod  *corev1.Pod
}

// tasks are those of a unit.
func (u *unit) tasks() []task {
	out := make([]task, len(u.pods))
	for i, pod := range u.pods {
		out[i] = task{unit: u, pod: pod}
	}
	return out
}

// victim is the pod as the remover needs it.
func (t task) victim() victimPod {
	return victimPod{namespace: t.pod.Namespace, name: t.pod.Name, node: t.pod.Spec.NodeName, uid: t.pod.UID, message: t.unit.podMessage}
}

// remove deletes the pods, unit after unit.
func (x *execution) remove(ctx context.Context) error {
	var tasks []task
	for _, u := range x.units {
		tasks = append(tasks, u.tasks()...)
	}
	// Once a call has failed, nothing is begun any more.
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
		// The call that marks it takes a while; what has become of the preemptor and of its group meanwhile still counts.
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
	// Events are calls as well. The preemptor does not wait for them, and they are not to be in the way of its binding.
	x.running.Go(func() {
		x.noteMembers(going)
		for _, t := range going {
			// At the end of the process, the rest goes at once.
			_ = x.pace.Wait(x.ctx)
			x.record(t.unit, t.pod)
		}
	})
	return err
}

// settle records what has become of a pod: for its unit, and for a group in the ledger too.
func (x *execution) settle(t task, became removal) {
	t.unit.settle(became, t.pod.UID)
	if t.unit.victim.Group {
		x.ledger.note(t.unit.key, t.pod.UID, became)
	}
}

// lost records the work that goes with a pod. One that has not started has done none.
func (x *execution) lost(pod *corev1.Pod) {
	if start := pod.Status.StartTime; start != nil {
		requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		x.metrics.Lost(requests, x.clock.Since(start.Time), x.order.Profile)
	}
}

// noteMembers records on PodGroups that members of theirs went one by one. A group that goes whole has that from its intent.
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
		if err := x.intents.note(x.ctx, key, x.preemptor, string(losses[key].rule), losses[key].pods); err != nil {
			klog.FromContext(x.ctx).Error(err, "Left a PodGroup without the record of a preemption", "podGroup", klog.KRef(key.Namespace, key.Name))
		}
	}
}

// announce logs, once, that a unit goes.
func (u *unit) announce(logger klog.Logger) {
	u.announced.Do(func() {
		logger.V(2).Info("Preempted a victim", append(u.logValues(), "victims", len(u.pods))...)
		logger.V(4).Info("Why a victim was preempted", append(u.logValues(), "reason", u.message)...)
	})
}

// record makes the event of a pod that goes and, once, that of its group.
func (x *execution) record(u *unit, pod *corev1.Pod) {
	by := x.events.by(x.order.Profile)
	if u.victim.Group {
		u.recorded.Do(func() { by.victimGroup(u.victim, x.preemptor, u.message) })
	}
	by.victimPod(pod.Namespace, pod.Name, pod.UID, x.preemptor, u.podMessage)
}

// takeBack takes back the intents of the groups that have not been touched. What it cannot reach is left to the
// Finisher, which knows from the ledger that these pods stay.
func (x *execution) takeBack(ctx context.Context) {
	if x.ctx.Err() != nil {
		// The process ends. What is written is for the next one to finish.
		return
	}
	ctx, cancel := x.bind(context.WithoutCancel(ctx))
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, takeBackTimeout)
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
			klog.FromContext(ctx).Error(err, "Left a preemption for the finisher to take back", u.logValues()...)
		}
		return nil
	})
}

// withdraw takes an intent back, now or, if that fails, by and by. Pods that a new order lists meanwhile stay on the list.
func (e *Executor) withdraw(ctx context.Context, key types.NamespacedName, uids sets.Set[types.UID]) error {
	e.ledger.at(key, func(en *entry) { en.withdrawn = en.withdrawn.Union(uids) })
	if err := e.intents.withdraw(ctx, key, func() sets.Set[types.UID] { return e.ledger.withdrawn(key).Intersection(uids) }); err != nil {
		return fmt.Errorf("take the preemption of PodGroup %s back: %w", key, err)
	}
	e.ledger.at(key, func(en *entry) {
		// Those that are on a new list by now are none of this.
		en.spared = en.spared.Union(en.withdrawn.Intersection(uids))
		en.withdrawn = en.withdrawn.Difference(uids)
	})
	klog.FromContext(ctx).V(2).Info("Took a preemption back", "podGroup", klog.KRef(key.Namespace, key.Name), "victims", len(uids))
	return nil
}

// begun are the pods that go although the order has not been carried out as a whole.
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
