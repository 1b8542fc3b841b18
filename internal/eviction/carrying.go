package eviction

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// carrying is one decision while it is being carried out.
type carrying struct {
	*Executor
	order  *scheduler.EvictionOrder
	by     v1alpha1.DisruptionPreemptor
	claims []podstatus.Claim
	units  []*unit
}

// unit is a victim unit of the decision, with those of its pods that have to be deleted.
type unit struct {
	victim  *core.Victim
	key     types.NamespacedName
	message string
	pods    []*corev1.Pod

	mu sync.Mutex
	// listed is true where the API may have the intent to remove the unit.
	listed bool
	// wanted is whether the preemptor still had a use for it when its turn came, once it has been asked.
	asked, wanted bool
	// committed is true once a delete has been sent that may have come through.
	committed bool
	// gone are the pods that are certainly on their way out.
	gone sets.Set[types.UID]
	told sync.Once
}

// begin reports whether the unit is to go, which is asked once.
func (u *unit) begin(wanted func() bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.asked {
		u.asked, u.wanted = true, wanted()
	}
	return u.wanted
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

func newCarrying(e *Executor, order *scheduler.EvictionOrder, claims []podstatus.Claim) *carrying {
	c := &carrying{Executor: e, order: order, by: preemptorOf(&order.Decision), claims: claims}
	for i := range order.Decision.Victims {
		v := &order.Decision.Victims[i]
		u := &unit{
			victim: v, key: types.NamespacedName{Namespace: v.Namespace, Name: v.Name},
			message: why(&order.Decision, v), gone: sets.New[types.UID](),
		}
		for _, p := range v.Pods {
			if pod := order.Victims[types.UID(p.UID)]; pod != nil {
				u.pods = append(u.pods, pod)
			}
		}
		c.units = append(c.units, u)
	}
	return c
}

// run carries the decision out, or as little of it as possible.
func (c *carrying) run(ctx context.Context) error {
	groups := c.groups()
	for _, u := range groups {
		c.ledger.begin(u.key)
	}
	defer func() {
		for _, u := range groups {
			c.ledger.end(u.key)
			c.over(u.key)
		}
	}()
	err := c.steps(ctx)
	if err == nil {
		return nil
	}
	c.takeBack(ctx)
	if begun := c.begun(); begun.Len() > 0 {
		return &scheduler.EvictionError{Err: err, Begun: begun}
	}
	return err
}

func (c *carrying) steps(ctx context.Context) error {
	left, err := each(c.claims, func(cl podstatus.Claim) error { return c.persist(ctx, cl) })
	c.statuses.Drop(left)
	if err != nil {
		return err
	}
	if !c.wanted() {
		return errUnwanted
	}
	c.turnBack()
	if _, err := each(c.groups(), func(u *unit) error { return c.list(ctx, u) }); err != nil {
		return err
	}
	return c.remove(ctx)
}

// errUnwanted is ErrOutdated on the preemptor's side.
var errUnwanted = fmt.Errorf("%w: the preemptor has no more use for it", scheduler.ErrOutdated)

func (c *carrying) wanted() bool { return c.order.Wanted == nil || c.order.Wanted() }

// groups are the units that go whole, and of which something has to be deleted.
func (c *carrying) groups() []*unit {
	var out []*unit
	for _, u := range c.units {
		if u.victim.Group && len(u.pods) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// persist tells the API where a pod of the preemptor goes. Nobody is evicted for one that has gone.
func (c *carrying) persist(ctx context.Context, cl podstatus.Claim) error {
	err := c.statuses.Write(ctx, cl)
	if hasGone(ctx, c.remover.pods, cl.Pod.Namespace, cl.Pod.Name, cl.Pod.UID, err) {
		return fmt.Errorf("%w: %w", errUnwanted, err)
	}
	return err
}

// turnBack sends victims that are not bound yet back to the queue.
func (c *carrying) turnBack() {
	for _, u := range c.units {
		bound := u.pods[:0]
		for _, pod := range u.pods {
			if !c.order.TurnBack(pod) {
				bound = append(bound, pod)
				continue
			}
			u.gone.Insert(pod.UID)
			c.teller.as(c.order.Profile).victimPod(pod.Namespace, pod.Name, pod.UID, c.by, u.message+", before it was bound")
		}
		u.pods = bound
	}
}

// list writes the intent to remove a whole group.
func (c *carrying) list(ctx context.Context, u *unit) error {
	c.ledger.at(u.key, func(e *entry) {
		for _, pod := range u.pods {
			e.seen.Insert(pod.UID)
			e.withdrawn.Delete(pod.UID)
			e.spared.Delete(pod.UID)
		}
	})
	u.mu.Lock()
	u.listed = true
	u.mu.Unlock()
	_, err := c.intents.write(ctx, &c.order.Decision, u.victim, u.pods)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		// The pods are not what they were when they were chosen.
		return fmt.Errorf("%w: PodGroup %s has gone", scheduler.ErrOutdated, u.key)
	default:
		return fmt.Errorf("mark PodGroup %s: %w", u.key, err)
	}
}

// remove deletes the pods, unit after unit.
func (c *carrying) remove(ctx context.Context) error {
	type task struct {
		unit *unit
		pod  *corev1.Pod
	}
	var tasks []task
	for _, u := range c.units {
		for _, pod := range u.pods {
			tasks = append(tasks, task{unit: u, pod: pod})
		}
	}
	// Once a call has failed, nothing is begun any more.
	var failed atomic.Bool
	var mu sync.Mutex
	var going []task
	_, err := each(tasks, func(t task) error {
		if !t.unit.begin(c.wanted) {
			failed.Store(true)
			return errUnwanted
		}
		became, err := c.remover.remove(ctx, doomed{
			namespace: t.pod.Namespace, name: t.pod.Name, uid: t.pod.UID, message: t.unit.message,
		}, func() bool { return !failed.Load() || t.unit.goes() })
		if err != nil {
			failed.Store(true)
		}
		t.unit.settle(became, t.pod.UID)
		if t.unit.victim.Group {
			c.ledger.note(t.unit.key, t.pod.UID, became)
		}
		if became == accepted {
			mu.Lock()
			going = append(going, t)
			mu.Unlock()
		}
		if err != nil {
			return fmt.Errorf("evict pod %s: %w", podKey(t.pod), err)
		}
		return nil
	})
	// Events are calls as well. The preemptor does not wait for them, and they are not to be in the way of its binding.
	c.running.Go(func() {
		for _, t := range going {
			// At the end of the process, the rest goes at once.
			_ = c.pace.Wait(c.ctx)
			c.tell(t.unit, t.pod)
		}
	})
	return err
}

// tell says to a pod, and once to its group, that it goes.
func (c *carrying) tell(u *unit, pod *corev1.Pod) {
	by := c.teller.as(c.order.Profile)
	if u.victim.Group {
		u.told.Do(func() { by.victimGroup(u.victim, c.by, u.message) })
	}
	by.victimPod(pod.Namespace, pod.Name, pod.UID, c.by, u.message)
}

// takeBack takes back the intents of the groups that have not been touched. What it cannot reach is left to the
// Finisher, which knows from the ledger that these pods stay.
func (c *carrying) takeBack(ctx context.Context) {
	if c.ctx.Err() != nil {
		// The process ends. What is written is for the next one to finish.
		return
	}
	ctx, cancel := c.bind(context.WithoutCancel(ctx))
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, takeBackTimeout)
	defer stop()
	_, _ = each(c.groups(), func(u *unit) error {
		if !u.listed || u.committed {
			return nil
		}
		uids := sets.New[types.UID]()
		for _, pod := range u.pods {
			uids.Insert(pod.UID)
		}
		if err := c.withdraw(ctx, u.key, uids); err != nil {
			klog.FromContext(ctx).Error(err, "Left to the finisher", "preemptor", c.order.Decision.Preemptor.Key())
		}
		return nil
	})
}

// withdraw takes an intent back, now or, if that fails, by and by.
func (e *Executor) withdraw(ctx context.Context, key types.NamespacedName, uids sets.Set[types.UID]) error {
	e.ledger.at(key, func(en *entry) { en.withdrawn = en.withdrawn.Union(uids) })
	if err := e.intents.withdraw(ctx, key, uids); err != nil {
		return fmt.Errorf("take the preemption of PodGroup %s back: %w", key, err)
	}
	e.ledger.at(key, func(en *entry) {
		// Those that are on a new list by now are none of this.
		en.spared = en.spared.Union(en.withdrawn.Intersection(uids))
		en.withdrawn = en.withdrawn.Difference(uids)
	})
	return nil
}

// begun are the pods that go although the decision has not been carried out as a whole.
func (c *carrying) begun() sets.Set[types.UID] {
	out := sets.New[types.UID]()
	for _, u := range c.units {
		out = out.Union(u.gone)
		if u.victim.Group && u.committed {
			for _, pod := range u.pods {
				out.Insert(pod.UID)
			}
		}
	}
	return out
}
