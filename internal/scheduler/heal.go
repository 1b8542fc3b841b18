package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/runs"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// lostMembers keeps room for members that gangs have lost, until their profile's healTimeout.
// Filter, the view of a decision and the order of the queue ask it. [staleGangs] allows the
// preemption of the same gangs after a longer time. It is safe for concurrent use.
type lostMembers struct {
	index      *cluster.Index
	placements *cluster.Placements
	ledger     *cluster.Ledger
	gangs      *engine.Gangs
	reserved   *engine.Reservations
	runs       *runs.Reader
	clock      clock.WithTicker
	steps      *stepper
	stale      *staleGangs
}

// keptDelay is the delay before the retry of a pod that must not use room for lost members.
const keptDelay = 200 * time.Millisecond

// healing is a gang that has lost members. The scheduler keeps room until replacements are placed.
type healing struct {
	group    *gang.Group
	standing workload.Standing
	// lost has one pod for each missing member. These are the pending members, and then copies of
	// placed members.
	lost []*corev1.Pod
	// since is the time of the first loss.
	since time.Time
	// in is the topology domain that the missing members must join.
	in cluster.Domain
}

// isKeptFrom reports whether a workload must not use the room that is kept for the gang. A workload
// with a higher priority may use it. A workload of another queue may also use it, because the turns
// of the queues decide which queue gets room.
func (one *healing) isKeptFrom(from workload.Standing) bool {
	otherQueue := one.standing.Queue != "" && from.Queue != "" && one.standing.Queue != from.Queue
	return one.standing.Priority >= from.Priority && !otherQueue
}

// healing lists the degraded gangs with kept room, the most important first. A gang is degraded
// while it lacks members that it had. So is a tree with a PodGroup past minGroupCount that lost
// members, but it never becomes stale. Room is kept until the gang is whole or deleted, or has been
// degraded for healTimeout. The list is computed from the members and the clock at each call, so no
// stored state can become stale.
func (lm *lostMembers) healing() []healing {
	if !lm.gangs.MayLack() {
		return nil
	}
	now := lm.clock.Now()
	lm.runs.SettleLost(lm.index.Groups, now)
	var out []healing
	for _, key := range lm.gangs.Degraded() {
		g, ok := lm.index.Groups.Group(nameOf(key))
		if !ok || len(g.Disrupted) > 0 {
			continue
		}
		members := lm.placements.Members(g.Key)
		missing, since := lm.missing(g, &members)
		if missing == 0 || len(members.Assigned) == 0 {
			continue
		}
		like := members.Assigned[0]
		if args := lm.index.Profiles.Of(like.Spec.SchedulerName); args == nil || now.Sub(since) >= args.Gang.HealTimeout.Duration {
			continue
		}
		lost := lm.placeholdersOf(g, &members, missing-len(lm.reserved.Of(key)))
		out = append(out, healing{group: g, standing: lm.ledger.StandingOf(like), lost: lost, since: since, in: lm.index.DomainOf(g.TopologyKey, members.Assigned)})
	}
	slices.SortFunc(out, func(a, b healing) int {
		return cmp.Or(
			cmp.Compare(b.standing.Priority, a.standing.Priority), cmp.Compare(len(a.lost), len(b.lost)),
			a.since.Compare(b.since), cmp.Compare(a.group.UID, b.group.UID),
		)
	})
	return out
}

// missing returns the number of members that a gang has lost, and the time of the first loss. For a
// whole tree, these are members of PodGroups past minGroupCount that keep some members: without the
// others, they are useless.
func (lm *lostMembers) missing(g *gang.Group, members *gang.Members) (lost int, since time.Time) {
	if degraded := lm.stale.degradedBy(g); degraded.Lacks > 0 {
		return degraded.Lacks, degraded.Since
	}
	if since = lm.runs.Current(g, lm.clock.Now()).ExtraSince; since.IsZero() {
		return 0, since
	}
	for _, n := range lm.placements.MissingExtra(g, members) {
		lost += n
	}
	return lost, since
}

// placeholdersOf returns pods that represent the missing members of a gang. missing is their
// number.
func (lm *lostMembers) placeholdersOf(g *gang.Group, members *gang.Members, missing int) []*corev1.Pod {
	waiting := slices.DeleteFunc(members.Unplaced(), func(pod *corev1.Pod) bool { return lm.reserved.Has(string(pod.UID)) })
	gang.SortByAge(waiting)
	// Lacking sorts the pods: the pods that the gang needs by their roles come first.
	lm.placements.Lacking(g, members, waiting)
	if extra := lm.placements.MissingExtra(g, members); len(extra) > 0 {
		// Keep no room for a group that has no member on a node.
		waiting = slices.DeleteFunc(waiting, func(pod *corev1.Pod) bool { return extra[g.Tree.PartOf(pod)] == 0 })
	}
	out := waiting[:max(min(missing, len(waiting)), 0)]
	parts := gang.PartsOf(g, lm.index.Derived, members)
	have := parts.Count(members.Assigned, members.Succeeded, lm.placements.Assumed(members), out)
	gang.SortByAge(members.Assigned)
	for i := len(out); i < missing; i++ {
		at := slices.IndexFunc(members.Assigned, func(pod *corev1.Pod) bool { return parts.IsShort(parts.Of(pod), have) })
		if at < 0 {
			// There is no member to copy: no placed member belongs to a part that needs more
			// members.
			break
		}
		have[parts.Of(members.Assigned[at])]++
		out = append(out, copyOf(g, members.Assigned[at], i))
	}
	return out
}

// copyOf returns a pod that represents a lost member without a replacement. It has the requests and
// constraints of another member. i makes its name and UID unique.
func copyOf(g *gang.Group, member *corev1.Pod, i int) *corev1.Pod {
	out := member.DeepCopy()
	out.Name, out.UID = fmt.Sprintf("%s-lost-%d", g.Key.Name, i), types.UID(fmt.Sprintf("%s/lost-%d", g.UID, i))
	out.Spec.NodeName, out.Status = "", corev1.PodStatus{}
	// Volumes and claims are specific to the copied member.
	out.Spec.Volumes, out.Spec.ResourceClaims = nil, nil
	return out
}

// isHealing reports whether a pod belongs to a degraded gang. The method healing lists these gangs.
func (lm *lostMembers) isHealing(pod *corev1.Pod) bool {
	if !lm.gangs.MayLack() {
		return false
	}
	key, ok := lm.index.GroupOf(pod)
	return ok && !lm.gangs.DegradedSince(gangKey(key)).IsZero()
}

// keptForLost returns the room that a workload must leave to the missing members of other gangs.
// The argument own is the group of the workload, and asks is one of its pods. The room is chosen on
// nodes where it hinders this pod least.
//
// A degraded gang must leave room only to degraded gangs that are more important. So of several
// degraded gangs, the most important one becomes whole first.
func (p *Plugin) keptForLost(
	own types.NamespacedName, asks *corev1.Pod, from workload.Standing,
) ([]*engine.Reservation, error) {
	gangs := p.sched.lost.healing()
	if len(gangs) == 0 || gangs[0].group.Key == own {
		return nil, nil
	}
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes of the snapshot: %w", err)
	}
	pi, err := framework.NewPodInfo(asks)
	if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", asks.Name, err)
	}
	k := &keeping{p: p, asks: seekerOf(pi, from, p.resources), pod: asks, infos: infos}
	for i := range gangs {
		one := &gangs[i]
		if one.group.Key == own {
			break
		}
		if !one.isKeptFrom(from) {
			continue
		}
		p.sched.gangs.Keeps(gangKey(one.group.Key), one.room())
		for _, pod := range one.lost {
			if err := k.keep(pod, one); err != nil {
				return nil, err
			}
		}
	}
	return k.kept, nil
}

// keptFromSingle is like keptForLost, for a pod that is scheduled alone.
func (p *Plugin) keptFromSingle(pod *corev1.Pod) ([]*engine.Reservation, error) {
	if !p.sched.gangs.MayLack() {
		return nil, nil
	}
	return p.keptForLost(p.sched.index.GroupKeyOf(pod), pod, p.sched.ledger.StandingOf(pod))
}

// keeping chooses nodes with room for lost members, as seen by the pod of one cycle.
type keeping struct {
	p     *Plugin
	asks  *seeker
	pod   *corev1.Pod
	infos []fwk.NodeInfo
	// later are the nodes with terminating pods, as if these pods were gone; nil until first
	// needed.
	later []fwk.NodeInfo
	kept  []*engine.Reservation
}

// keep reserves room for a lost member. It prefers a node that has room now over a node that will
// have room after its terminating pods are gone. If there is no such node, it reserves nothing.
func (k *keeping) keep(lost *corev1.Pod, of *healing) error {
	pi, err := framework.NewPodInfo(lost)
	if err != nil {
		return fmt.Errorf("read pod %s: %w", lost.Name, err)
	}
	r := &engine.Reservation{Pod: pi, UID: string(lost.UID), Standing: of.standing}
	s := seekerOf(pi, of.standing, k.p.resources)
	if r.Node = k.nodeFor(r, s, of.in, k.infos); r.Node == "" {
		r.Node = k.nodeFor(r, s, of.in, k.leaving())
	}
	if r.Node != "" {
		k.kept = append(k.kept, r)
	}
	return nil
}

// nodeFor returns a node of a domain with room for a lost member; "" for none. It prefers a node
// where the room does not hinder the requesting pod: the pod fits there beside the member, or does
// not fit at all.
func (k *keeping) nodeFor(r *engine.Reservation, s *seeker, in cluster.Domain, infos []fwk.NodeInfo) (hindered string) {
	for _, info := range infos {
		name := info.Node().Name
		if !in.Has(info.Node()) || !s.fitsBeside(info, nil) {
			continue
		}
		held := slices.DeleteFunc(slices.Clone(k.p.sched.reserved.On(name)), func(other *engine.Reservation) bool { return isUsedOn(other, info) })
		held = append(held, keptOn(k.kept, name)...)
		if !s.fitsBeside(info, held) || !k.p.sched.index.CouldRunOn(info.Node(), cluster.PodIn(r)) {
			continue
		}
		if k.asks.fitsBeside(info, append(held, r)) || !k.asks.fitsBeside(info, held) || !k.p.sched.index.CouldRunOn(info.Node(), k.pod) {
			return name
		}
		hindered = cmp.Or(hindered, name)
	}
	return hindered
}

// leaving returns the nodes with terminating pods, as if these pods were gone. It omits nodes with
// an overdue pod.
func (k *keeping) leaving() []fwk.NodeInfo {
	if k.later != nil {
		return k.later
	}
	k.later = make([]fwk.NodeInfo, 0)
	for _, info := range k.infos {
		leaves, overdue := false, false
		for _, pi := range info.GetPods() {
			if pod := pi.GetPod(); pod.DeletionTimestamp != nil {
				leaves, overdue = true, overdue || k.p.sched.leaving.IsOverdue(pod.UID)
			}
		}
		if !leaves || overdue {
			continue
		}
		if staying := k.p.sched.placements.Staying(info.Node().Name); staying != nil {
			k.later = append(k.later, staying)
		}
	}
	return k.later
}

// keptOn returns the reservations on a node.
func keptOn(kept []*engine.Reservation, node string) (out []*engine.Reservation) {
	for _, r := range kept {
		if r.Node == node {
			out = append(out, r)
		}
	}
	return out
}

// promisedToLost converts the room for lost members for a decisionView. The room counts as usage of
// no queue.
func promisedToLost(kept []*engine.Reservation) []snapshot.RankedRoom {
	out := make([]snapshot.RankedRoom, len(kept))
	for i, r := range kept {
		out[i] = snapshot.RankedRoom{ReservedRoom: snapshot.ReservedRoom{Pod: cluster.PodInfoIn(r), Node: r.Node}, Priority: r.Priority}
	}
	return out
}

// room describes the kept room of the gang for the engine.
func (one *healing) room() engine.Kept {
	return engine.Kept{Standing: one.standing, Lost: len(one.lost)}
}

// sweep retries the workloads that must not use the room for lost members of a gang, once that room
// is no longer kept. For example, the gang is whole or deleted, or healTimeout has passed. The main
// loop calls it.
func (lm *lostMembers) sweep() {
	if !lm.gangs.HasKept() {
		return
	}
	now := make(map[workload.Key]engine.Kept)
	for _, one := range lm.healing() {
		now[gangKey(one.group.Key)] = one.room()
	}
	if !lm.gangs.EndKept(now) {
		return
	}
	lm.steps.step(engine.CauseEnds{Cause: engine.Reserved})
}
