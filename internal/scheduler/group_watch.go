package scheduler

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/admission"
	"github.com/reprieve-dev/reprieve/internal/changes"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/pauses"
	"github.com/reprieve-dev/reprieve/internal/queue"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/victims"
)

// groupWatch follows the PodGroups: it applies each change to the quota ledger, the reservations
// and the retries of the members. The source of the groups calls changed, and the main loop calls
// followDelayed. [podWatch] does the same for pods. It is safe for concurrent use.
type groupWatch struct {
	index            *cluster.Index
	placements       *cluster.Placements
	ledger           *cluster.Ledger
	quotas           *queue.Ledger
	cluster          *snapshot.Cache
	engine           *engine.Engine
	gangs            *engine.Gangs
	reserved         *engine.Reservations
	turns            *admission.List
	wanted           *wants
	clock            clock.WithTicker
	retries          *retries
	releases         *releases
	departures       *departures
	pauses           *pauses.Pauses
	victimPriorities *victims.Priorities
	recorded         *recordedWaits
	memberships      *memberships

	// changes delays the handling of PodGroups that change very often.
	changes changes.Groups
}

// changed handles a created, changed or deleted PodGroup and checks its members again. Decisions
// use the change at once. The other effects may come later if the PodGroup changes very often. Any
// goroutine may call it once the scheduler runs.
func (gw *groupWatch) changed(key types.NamespacedName) {
	g, ok := gw.index.Groups.Group(key)
	if ok {
		gw.gangs.Touch(gangKey(key))
	} else {
		g = nil
		gw.gangs.ForgetRun(gangKey(key))
	}
	gw.cluster.GroupChanged(key)
	gw.wanted.askAnew()
	urgency := changes.Patient
	if ok {
		gw.departures.disrupted(key, g.Disrupted)
	} else {
		gw.departures.disrupted(key, nil)
		urgency = changes.Urgent
	}
	// Record the priority before any delay. If the priority rises and falls within one delay, a
	// later comparison would find no change.
	gw.victimPriorities.Follow(key, g)
	if gw.changes.IsDelayed(key, urgency, gw.clock.Now()) {
		gw.engine.Look()
		return
	}
	gw.follow(key)
}

// follow applies the current state of a PodGroup to its members.
func (gw *groupWatch) follow(key types.NamespacedName) {
	g, ok := gw.index.Groups.Group(key)
	gw.pauses.GroupChangedByOwner(key, g)
	change := gw.ledger.ChargeGroup(key)
	gw.retries.atLimit(change.Eased)
	gw.gangs.CheckReported(gangKey(key), gw.clock.Now())
	minCount := 0
	if ok {
		minCount = g.MinCount
	} else {
		g = nil
	}
	if gw.gangs.NeedsMembers(gangKey(key), minCount) && len(gw.index.Lister.Members(key).Assigned) > 0 {
		gw.retries.protectionEnded()
	}
	switch {
	case !ok:
		gw.recorded.end(gangKey(key), decisionlog.Gone)
		gw.turns.Forget(gangKey(key))
		gw.releases.plan(key, nil, "its PodGroup is gone")
		gw.releases.All(gangKey(key), "its PodGroup is gone")
	case g.IsGang():
		gw.joinedGang(key)
		gw.memberships.review(key)
		gw.replanShort(key, g)
		gw.updateNeeded(key, g)
		if change.Moved {
			gw.releases.changedQueue(gangKey(key))
		}
		gw.retries.gang(key)
	default:
		gw.recorded.end(gangKey(key), decisionlog.Gone)
		gw.turns.Forget(gangKey(key))
		gw.releases.All(gangKey(key), "it is no gang any more")
		pending := gw.index.Lister.Members(key).Pending
		if change.Moved {
			for _, pod := range pending {
				gw.releases.changedQueue(podKey(pod))
			}
		}
		gw.retries.activate(pending...)
	}
}

// updateNeeded handles a gang whose needs may have changed while members wait at Permit. If the
// members that have passed their cycles make every part whole, the members wait for no planned
// member. Surplus members of one part do not replace members of another part.
func (gw *groupWatch) updateNeeded(key types.NamespacedName, g *gang.Group) {
	if gw.gangs.Planned(gangKey(key)) == 0 {
		return
	}
	if members := gw.placements.Members(key); gw.placements.Missing(g, &members) == 0 {
		gw.gangs.SetNeeded(gangKey(key), 0)
	}
}

// joinedGang handles pods whose group has become a gang. It releases the reservations that they got
// as single pods, and ends their waits for turns.
func (gw *groupWatch) joinedGang(key types.NamespacedName) {
	queued, promised := gw.quotas.Used(), !gw.reserved.Empty()
	if !queued && !promised {
		return
	}
	for _, pod := range gw.index.Lister.Members(key).Pending {
		single := podKey(pod)
		if queued {
			gw.turns.Forget(single)
		}
		if promised && len(gw.reserved.Of(single)) > 0 {
			gw.releases.All(single, "it is part of a gang now")
		}
	}
}

// replanShort releases a plan that has too few members because minCount was raised.
func (gw *groupWatch) replanShort(key types.NamespacedName, g *gang.Group) {
	planned := gw.gangs.PlannedMembers(gangKey(key))
	if members := gw.placements.Members(key); len(planned)+members.Reserved.Len() > 0 && gw.placements.IsInPart(g, &members, planned) {
		gw.releases.plan(key, nil, "more members are needed than it was planned for")
	}
}

// followDelayed handles the delayed changes that are due. The main loop calls it.
func (gw *groupWatch) followDelayed() {
	for {
		began := gw.clock.Now()
		key, ok := gw.changes.Next(began)
		if !ok {
			return
		}
		gw.follow(key)
		gw.changes.Followed(key, began, gw.clock.Now())
	}
}
