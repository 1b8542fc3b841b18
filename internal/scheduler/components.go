package scheduler

import (
	"github.com/reprieve-dev/reprieve/internal/drivers"
	"github.com/reprieve-dev/reprieve/internal/pauses"
	"github.com/reprieve-dev/reprieve/internal/victims"
)

// connect creates the components of a Scheduler, in the order of their dependencies. A component
// holds the layers and the earlier components that it uses. It knows neither the Scheduler nor a
// later component. The only call in the other direction is stepper.apply, which carries out
// effects. The package documentation lists the components.
func connect(h *Scheduler) {
	connectRetries(h)
	connectCauses(h)
	connectReviewers(h)
	connectWatchers(h)
	h.sources.index, h.sources.placements, h.sources.ledger = h.index, h.placements, h.ledger
	h.sources.stale, h.sources.victimPriorities, h.sources.runs = h.stale, h.victimPriorities, h.runs
}

// connectRetries creates the components that retry workloads and release reservations.
func connectRetries(h *Scheduler) {
	h.steps = &stepper{index: h.index, engine: h.engine, clock: h.clock, apply: h.apply}
	h.retries = &retries{
		index: h.index, placements: h.placements, ledger: h.ledger, quotas: h.quotas, handle: h.handle,
		gangs: h.gangs, waits: h.waits, turns: h.turns, clock: h.clock, steps: h.steps,
	}
	h.releases = &releases{
		index: h.index, placements: h.placements, ledger: h.ledger, quotas: h.quotas, evictor: h.evictor,
		handle: h.handle, gangs: h.gangs, records: h.records, reserved: h.reserved, waits: h.waits, wanted: h.wanted,
		metrics: h.metrics, steps: h.steps, retries: h.retries,
	}
}

// connectCauses creates the components that know why workloads wait.
func connectCauses(h *Scheduler) {
	h.drivers = drivers.New(h.index, h.placements, h.ledger, h.engine, h.clock, h.retries)
	h.plenty = &plenty{
		index: h.index, ledger: h.ledger, quotas: h.quotas, handle: h.handle, turns: h.turns, clock: h.clock,
	}
	h.gates = &gates{
		index: h.index, placements: h.placements, ledger: h.ledger, quotas: h.quotas, gangs: h.gangs,
		reserved: h.reserved, waits: h.waits, turns: h.turns, clock: h.clock, steps: h.steps, retries: h.retries,
		releases: h.releases, drivers: h.drivers, plenty: h.plenty,
	}
	h.nominations = &nominations{
		index: h.index, placements: h.placements, ledger: h.ledger, handle: h.handle, records: h.records,
		reserved: h.reserved, steps: h.steps, releases: h.releases,
	}
	h.rooms = &rooms{
		index: h.index, placements: h.placements, ledger: h.ledger, dips: h.dips, reserved: h.reserved,
		waits: h.waits, clock: h.clock, steps: h.steps, retries: h.retries, releases: h.releases,
		toReview: newReviews(h.index.HasNode),
	}
}

// connectReviewers creates the components that follow nodes, queues, terminating pods and placed
// gangs. When one of these changes, they retry waiting work or release reservations.
func connectReviewers(h *Scheduler) {
	h.nodes = &nodeWatch{
		index: h.index, placements: h.placements, ledger: h.ledger, quotas: h.quotas, dips: h.dips, handle: h.handle,
		reserved: h.reserved, waits: h.waits, wanted: h.wanted, clock: h.clock, metrics: h.metrics,
		retries: h.retries, releases: h.releases, rooms: h.rooms,
	}
	h.departures = &departures{
		index: h.index, placements: h.placements, ledger: h.ledger, leaving: h.leaving, quotas: h.quotas,
		cluster: h.cluster, waits: h.waits, clock: h.clock, steps: h.steps, retries: h.retries, rooms: h.rooms,
	}
	h.pauses = pauses.New(h.index, h.engine, h.clock, h.metrics, Name, h.retries, h.releases)
	h.victimPriorities = victims.New(victims.Sources{
		Index: h.index, Ledger: h.ledger, Quotas: h.quotas, Snapshot: h.cluster, Tolerations: h.tolerations,
		Engine: h.engine, Runs: h.runs, Clock: h.clock, Retries: h.retries,
	})
	h.stale = &staleGangs{
		index: h.index, placements: h.placements, cluster: h.cluster, gangs: h.gangs, reserved: h.reserved,
		runs: h.runs, clock: h.clock, retries: h.retries,
	}
	h.lost = &lostMembers{
		index: h.index, placements: h.placements, ledger: h.ledger, gangs: h.gangs, reserved: h.reserved,
		runs: h.runs, clock: h.clock, steps: h.steps, stale: h.stale,
	}
	h.queues = &queueChanges{
		index: h.index, ledger: h.ledger, quotas: h.quotas, cluster: h.cluster, turns: h.turns, clock: h.clock,
		metrics: h.metrics, retries: h.retries, releases: h.releases, victimPriorities: h.victimPriorities,
	}
	h.recorded = &recordedWaits{index: h.index, decisions: h.decisions, clock: h.clock}
	h.seals = &seals{index: h.index, ledger: h.ledger, records: h.records, runs: h.runs, clock: h.clock}
	h.surplus = &surplus{
		index: h.index, placements: h.placements, waits: h.waits, runs: h.runs, clock: h.clock, steps: h.steps,
	}
}

// connectWatchers creates the components that handle scheduling cycles, and changes of pods and
// PodGroups.
func connectWatchers(h *Scheduler) {
	h.memberships = &memberships{
		index: h.index, placements: h.placements, ledger: h.ledger, quotas: h.quotas, cluster: h.cluster,
		gangs: h.gangs, records: h.records, reserved: h.reserved, waits: h.waits, turns: h.turns, clock: h.clock,
		steps: h.steps, retries: h.retries, releases: h.releases, recorded: h.recorded,
	}
	h.cycles = &cycles{
		index: h.index, gangs: h.gangs, records: h.records, reserved: h.reserved, waits: h.waits, turns: h.turns,
		retries: h.retries, releases: h.releases, nominations: h.nominations, pauses: h.pauses,
	}
	h.groupWatch = &groupWatch{
		index: h.index, placements: h.placements, ledger: h.ledger, quotas: h.quotas, cluster: h.cluster,
		engine: h.engine, gangs: h.gangs, reserved: h.reserved, turns: h.turns, wanted: h.wanted, clock: h.clock,
		retries: h.retries, releases: h.releases, departures: h.departures, pauses: h.pauses,
		victimPriorities: h.victimPriorities, recorded: h.recorded, memberships: h.memberships,
	}
	h.podWatch = &podWatch{
		index: h.index, placements: h.placements, ledger: h.ledger, leaving: h.leaving, quotas: h.quotas,
		cluster: h.cluster, gangs: h.gangs, records: h.records, waits: h.waits, refused: h.refused,
		reporter: h.reporter, recorder: h.recorder, finished: h.finished, clock: h.clock, steps: h.steps,
		retries: h.retries, releases: h.releases, drivers: h.drivers, gates: h.gates, nominations: h.nominations,
		rooms: h.rooms, departures: h.departures, pauses: h.pauses, recorded: h.recorded, surplus: h.surplus,
		memberships: h.memberships, groupWatch: h.groupWatch,
	}
}
