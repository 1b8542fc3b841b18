package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// StateSchema is the version of the JSON of a State. It changes if a field is removed or changes
// its meaning. It stays the same if fields are added.
const StateSchema = "reprieve.dev/snapshot/v1"

// State has the inputs of decisions at one moment, for people and programs. It leaves out facts
// that only filters use (affinity, spread, ports, volumes), because the API objects have them.
// Times are nanoseconds since 1970, and durations are nanoseconds. Lists are sorted by name.
type State struct {
	// Schema is the version of the format.
	Schema string `json:"schema"`
	// Time is the time when the state was recorded, in UTC.
	Time time.Time `json:"time"`
	// Process identifies the scheduler process.
	Process string `json:"process"`
	// Generation is the highest generation of any node in the scheduler's cache. It increases with
	// each change of a node.
	Generation int64 `json:"generation"`
	// Nodes are the schedulable nodes.
	Nodes []StateNode `json:"nodes"`
	// Units are the preemption units: pods, and PodGroups in disruption mode PodGroup.
	Units []StateUnit `json:"units"`
	// Leaving are the terminating pods whose room decisions count as free.
	Leaving []StatePod `json:"leaving,omitempty"`
	// Overdue are the pods that should have terminated long ago. Decisions do not count their room
	// as free, and never select them as victims.
	Overdue []StatePod `json:"overdue,omitempty"`
	// Promised is the room that is reserved for pods that are not on their node yet.
	Promised []StateReservation `json:"promised,omitempty"`
	// Budgets are the PodDisruptionBudgets.
	Budgets []StateBudget `json:"budgets,omitempty"`
	// Queues are the valid queues, parents before their children.
	Queues []StateQueue `json:"queues,omitempty"`
}

// StateAmounts are amounts by resource, in milli-CPUs, bytes or counts. Zero amounts are omitted.
type StateAmounts map[string]int64

// StateNode is one node.
type StateNode struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Taints []corev1.Taint    `json:"taints,omitempty"`
	// Unschedulable is true for a cordoned node.
	Unschedulable bool         `json:"unschedulable,omitempty"`
	Allocatable   StateAmounts `json:"allocatable"`
	// Free is the allocatable capacity minus the requests of all pods on the node, including
	// terminating pods. It may be negative.
	Free StateAmounts `json:"free"`
}

// StateUnit is one preemption unit.
type StateUnit struct {
	// Namespace, Name and UID identify the unit's pod or PodGroup.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Group is true for a whole PodGroup, false for a single pod.
	Group bool `json:"group"`
	// PodGroup is the UID of the unit's PodGroup: the PodGroup that is the unit, or the PodGroup of
	// the unit's pod.
	PodGroup string `json:"podGroup,omitempty"`
	// GroupName is the name of the PodGroup whose UID is in PodGroup.
	GroupName string `json:"groupName,omitempty"`
	// Role is the role of the pod in its gang.
	Role string `json:"role,omitempty"`
	// RoleNeeds is the number of members with this role that the gang needs.
	RoleNeeds int32 `json:"roleNeeds,omitempty"`
	// Priority is the priority of the PodGroup, or of a pod without a PodGroup, as a potential
	// victim.
	Priority int32 `json:"priority"`
	// RaisedBy is the difference between Priority and the scheduling priority of the PodGroup.
	RaisedBy int64 `json:"raisedBy,omitempty"`
	// Start is the time when the unit started; 0 if it has not started.
	Start int64 `json:"start,omitempty"`
	// Since is the start of the run time that min-runtimes compare with; 0 if it has not begun.
	Since int64 `json:"since,omitempty"`
	// Queue is the name of the unit's leaf queue.
	Queue string `json:"queue,omitempty"`
	// MinCount is the minCount of the gang that the unit's pod belongs to.
	MinCount int32 `json:"minCount,omitempty"`
	// Surplus is true for a member that is needed neither for the minCount of its gang nor for its
	// role.
	Surplus bool `json:"surplus,omitempty"`
	// Lacks is the number of members that the unit's gang has lost and not replaced.
	Lacks int32 `json:"lacks,omitempty"`
	// Stale is true if members have been missing for too long.
	Stale bool `json:"stale,omitempty"`
	// Stops is the number of preemptions that have stopped the unit's group since the group last
	// made progress.
	Stops int32 `json:"stops,omitempty"`
	// StoppedAt is the time of the last of these preemptions.
	StoppedAt int64 `json:"stoppedAt,omitempty"`
	// Running is true for a pod with running containers.
	Running bool `json:"running,omitempty"`
	// Static is true for a pod that the kubelet of its node runs without the API server.
	Static bool `json:"static,omitempty"`
	// Local is true for a pod whose replacement can only run on the same node.
	Local bool `json:"local,omitempty"`
	// RefusedUntil is the end of the protection of a unit whose deletion was refused; 0 if no
	// deletion was refused.
	RefusedUntil int64 `json:"refusedUntil,omitempty"`
	// Toleration protects the unit from preemptors of low priority.
	Toleration *StateToleration `json:"toleration,omitempty"`
	// MinRuntime has the min-runtimes of the profile that schedules the unit. It is omitted if the
	// profile is unknown.
	MinRuntime *StateMinRuntime `json:"minRuntime,omitempty"`
	// Pods are all pods of the unit.
	Pods []StatePod `json:"pods"`
}

// StateToleration protects a unit from preemptors of low priority.
type StateToleration struct {
	// Below is the lowest priority that is high enough to preempt the unit during the protection.
	Below int32 `json:"below"`
	// Until is the end of the protection. It is omitted if the protection has no end.
	Until int64 `json:"until,omitempty"`
	// Lasts is the length of a protection that has not begun.
	Lasts int64 `json:"lasts,omitempty"`
	// ClassNotFound is true if the PriorityClass of the unit does not exist. Its toleration is then
	// unknown.
	ClassNotFound bool `json:"classNotFound,omitempty"`
	// Never is true if the end of the protection comes from the disruption mode Never of a
	// PodGroup.
	Never bool `json:"never,omitempty"`
}

// StateMinRuntime has the times that work is protected after its start, if the queues of the work
// set none.
type StateMinRuntime struct {
	Preempt int64 `json:"preempt"`
	Reclaim int64 `json:"reclaim"`
	// Resolve selects the queue where the upward search for the reclaim setting begins.
	Resolve core.ResolveMethod `json:"resolve"`
}

// StatePod is one pod on a node.
type StatePod struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	UID       string       `json:"uid"`
	Node      string       `json:"node"`
	Request   StateAmounts `json:"request"`
	// Start is the time when the pod started; 0 if it has not started.
	Start int64 `json:"start,omitempty"`
	// SavedAt is the time when the pod last saved its work, from its annotation. GroupSavedAt is
	// the time in the annotation of its PodGroup. CheckpointInterval is the time between two saves.
	// RestartCost is the run time that a restart loses in addition to unsaved work; -1 for none.
	// Each value is 0 if it is unknown.
	SavedAt            int64 `json:"savedAt,omitempty"`
	GroupSavedAt       int64 `json:"groupSavedAt,omitempty"`
	CheckpointInterval int64 `json:"checkpointInterval,omitempty"`
	RestartCost        int64 `json:"restartCost,omitempty"`
	// Budgets has the PodDisruptionBudgets that select the pod, as namespace/name.
	Budgets []string `json:"budgets,omitempty"`
}

// StateReservation is room that is reserved for a pod.
type StateReservation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Node is the node with the room.
	Node    string       `json:"node"`
	Request StateAmounts `json:"request"`
	// Priority is the priority of the pod, or of its PodGroup. A preemptor may use the room only if
	// its priority is higher.
	Priority int32 `json:"priority"`
	// Queue is the leaf queue whose usage includes the room.
	Queue string `json:"queue,omitempty"`
}

// StateBudget is one PodDisruptionBudget.
type StateBudget struct {
	// Key is the budget's namespace/name.
	Key string `json:"key"`
	// Allowed is the number of pods that may be evicted without violating the budget. Terminating
	// pods are already subtracted.
	Allowed int32 `json:"allowed"`
}

// StateQueue is one queue.
type StateQueue struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	// Quota is the amount that the queue can always reclaim. It is at most the quota of the queue's
	// parent.
	Quota StateAmounts `json:"quota"`
	// Limit is the maximum usage of the queue's work. A resource without a limit is omitted.
	Limit map[string]int64 `json:"limit,omitempty"`
	// FairShare is the queue's current fair share.
	FairShare StateAmounts `json:"fairShare"`
	// Used is the usage of the units in the queue and in all queues below it.
	Used StateAmounts `json:"used"`
	// OverQuotaWeight and Priority determine the queue's part of the capacity that no quota claims.
	OverQuotaWeight int64 `json:"overQuotaWeight"`
	Priority        int32 `json:"priority"`
	// PreemptMinRuntime and ReclaimMinRuntime are the times that the queue's work is protected
	// after its start. They are omitted if the queue inherits them.
	PreemptMinRuntime *int64 `json:"preemptMinRuntime,omitempty"`
	ReclaimMinRuntime *int64 `json:"reclaimMinRuntime,omitempty"`
	// SilentWorkCap is the maximum run time that counts as lost for work that has saved nothing. It
	// is omitted if the queue inherits it.
	SilentWorkCap *int64 `json:"silentWorkCap,omitempty"`
}

// RankedRoom is reserved room on a node, with the priority of its pod. Reserved is false for a pod
// that is only nominated to the node, without a reservation.
type RankedRoom struct {
	ReservedRoom
	Priority int32
	Reserved bool
}

// State returns the state of the cluster at the last call of Level, with the given reservations.
// Only the goroutine that calls Level may call it. The caller must set Time and Process.
func (c *Cache) State(promised []RankedRoom) State {
	s := c.cluster.Snapshot()
	d := describer{s: s, resources: s.Resources, dimensions: &c.dimensions}
	out := State{Schema: StateSchema, Nodes: d.nodes(), Units: d.units(), Budgets: d.budgets(), Queues: d.queues()}
	for _, n := range c.nodes {
		out.Generation = max(out.Generation, n.generation)
	}
	for i := range s.Leaving {
		out.Leaving = append(out.Leaving, d.pod(&s.Leaving[i]))
	}
	slices.SortFunc(out.Leaving, byName)
	for _, node := range slices.Sorted(maps.Keys(c.overdue)) {
		info := c.nodes[node].info
		for _, pi := range info.GetPods() {
			if pod := pi.GetPod(); slices.Contains(c.overdue[node], pod) {
				out.Overdue = append(out.Overdue, StatePod{
					Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: node, Start: Nanos(startOf(pod)),
					Request: d.amounts(c.dimensions.amounts(pi.CalculateResource().Resource, 1)),
				})
			}
		}
	}
	slices.SortFunc(out.Overdue, byName)
	for _, p := range promised {
		pod := p.Pod.GetPod()
		if info := c.nodes[p.Node].info; info == nil || RunsOn(info, pod.UID) {
			continue
		}
		out.Promised = append(out.Promised, StateReservation{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: p.Node, Queue: p.Queue, Priority: p.Priority,
			Request: d.amounts(c.dimensions.amounts(p.Pod.CalculateResource().Resource, 1)),
		})
	}
	slices.SortFunc(out.Promised, func(a, b StateReservation) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// describer converts the parts of a core snapshot to the parts of a State.
type describer struct {
	s          *core.Snapshot
	resources  []string
	dimensions *dimensions
}

func (d *describer) amounts(a core.Amounts) StateAmounts {
	out := make(StateAmounts, len(a))
	for r, v := range a {
		if v != 0 {
			out[d.resources[r]] = v
		}
	}
	return out
}

func (d *describer) nodes() []StateNode {
	out := make([]StateNode, 0, len(d.s.Nodes))
	for i := range d.s.Nodes {
		n := &d.s.Nodes[i]
		info := nodeInfo(n)
		if info == nil {
			// The slot is not used.
			continue
		}
		node, free := info.Node(), slices.Clone(n.Free)
		// Subtract the assumed room for delegated resources, because the number of their free
		// devices is not known.
		d.dimensions.addDelegated(free, n.Allocatable, -delegatedRoom)
		out = append(out, StateNode{
			Name: n.Name, Labels: node.Labels, Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable,
			Allocatable: d.amounts(n.Allocatable), Free: d.amounts(free),
		})
	}
	slices.SortFunc(out, func(a, b StateNode) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (d *describer) units() []StateUnit {
	out := make([]StateUnit, 0, len(d.s.Units))
	for i := range d.s.Units {
		u := &d.s.Units[i]
		if len(u.Pods) == 0 {
			continue
		}
		unit := StateUnit{
			Namespace: u.Namespace, Name: u.Name, UID: u.UID, Group: u.Group, PodGroup: u.PodGroup, GroupName: u.GroupName, Priority: u.OwnPriority(),
			RaisedBy: u.RaisedBy, Lacks: u.Lacks, Stale: u.Stale, Start: u.Start, Since: u.Since, Surplus: u.Surplus, Running: u.Running, Static: u.Static, Local: u.Local, RefusedUntil: u.RefusedUntil, Pods: make([]StatePod, len(u.Pods)),
			Stops: u.Stops.Count, StoppedAt: u.Stops.Last,
		}
		if u.Role != nil {
			unit.Role, unit.RoleNeeds = u.Role.Name, u.Role.Needs
		}
		if m := u.Membership; m != nil {
			unit.Queue, unit.MinCount = m.Queue, m.MinCount
		}
		if t := u.Toleration; t != nil {
			unit.Toleration = &StateToleration{Below: t.Below, Until: t.Until, Lasts: t.Lasts, ClassNotFound: t.ClassNotFound, Never: t.Never}
			if t.Until == core.Forever {
				unit.Toleration.Until = 0
			}
		}
		if m := u.MinRuntime; m != nil {
			unit.MinRuntime = &StateMinRuntime{Preempt: m.Preempt, Reclaim: m.Reclaim, Resolve: m.Resolve}
		}
		for j := range u.Pods {
			unit.Pods[j] = d.pod(&u.Pods[j])
		}
		slices.SortFunc(unit.Pods, byName)
		out = append(out, unit)
	}
	slices.SortFunc(out, func(a, b StateUnit) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

func (d *describer) pod(p *core.Pod) StatePod {
	out := StatePod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Node: d.s.Nodes[p.Node].Name, Request: d.amounts(p.Request), Start: p.Start,
		SavedAt: p.Progress.Saved, GroupSavedAt: p.Progress.GroupSaved, CheckpointInterval: p.Progress.Interval, RestartCost: p.Progress.Restart,
	}
	for _, b := range p.Budgets {
		out.Budgets = append(out.Budgets, d.s.Budgets[b].Key)
	}
	slices.Sort(out.Budgets)
	return out
}

func byName(a, b StatePod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

func (d *describer) budgets() []StateBudget {
	var out []StateBudget
	for _, b := range d.s.Budgets {
		// Skip unused positions, which have no key.
		if b.Key != "" {
			out = append(out, StateBudget{Key: b.Key, Allowed: b.Allowed})
		}
	}
	slices.SortFunc(out, func(a, b StateBudget) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func (d *describer) queues() []StateQueue {
	q := d.s.Queues
	if q == nil || q.Tree == nil {
		return nil
	}
	used := make([]int64, q.Tree.Len()*q.Tree.Dims())
	for i := range d.s.Units {
		u := &d.s.Units[i]
		if u.Membership == nil {
			continue
		}
		leaf := q.Tree.LeafOf(u.Membership.Queue)
		for j := range u.Pods {
			q.Tree.Use(used, leaf, u.Pods[j].Request, 1)
		}
	}
	out := make([]StateQueue, q.Tree.Len())
	for i := range out {
		queue := q.Tree.Queue(int32(i))
		out[i] = StateQueue{
			Name: queue.Name, Parent: queue.Parent, Quota: d.amounts(queue.Quota), Limit: d.limit(queue.Limit),
			FairShare: d.amounts(q.Shares[i]), Used: d.amounts(used[i*q.Tree.Dims():][:q.Tree.Dims()]),
			OverQuotaWeight: queue.Weight, Priority: queue.Priority,
			PreemptMinRuntime: setting(queue.PreemptMinRuntime), ReclaimMinRuntime: setting(queue.ReclaimMinRuntime),
			SilentWorkCap: queue.SilentWorkCap,
		}
	}
	return out
}

// limit converts a limit. It includes resources with a limit of 0.
func (d *describer) limit(a core.Amounts) map[string]int64 {
	out := make(map[string]int64)
	for r, v := range a {
		if v != fairshare.Unlimited && d.resources[r] != "" {
			out[d.resources[r]] = v
		}
	}
	return out
}

// setting converts a min-runtime of a queue in nanoseconds; nil if the queue does not set it.
func setting(nanoseconds int64) *int64 {
	if nanoseconds == fairshare.Unset {
		return nil
	}
	return &nanoseconds
}
