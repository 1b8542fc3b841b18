// Package engine keeps one record for each workload, a pod or a group, and one for each pod in an
// attempt ([Engine]). The parts of the records share one lock:
//
//	part          facts                                                    about
//	Pods          the attempt of a pod, its node, its nomination           a pod
//	Gangs         the plan of a gang, its run, its reports                 a group
//	Reservations  the room that is set aside for pods                      a pod or group
//	Waits         causes of waiting, victims, evictions under way          a pod or group
//	Unbound       preemptions without a binding, and the pause after them  a pod or group
//	Crashes       crashes after preemptions, and the pause after them      a pod or group
//
// # Events and effects
//
// [Engine.Step] applies an [Event] to the records and returns each [Effect] that follows. It is the
// table of transitions: for each event, it names every fact that ends and the workloads to retry.
// The caller carries out the effects after Step, because most of them call the framework or the
// API. The outcome of an effect may be the next event: after [Withdraw], the caller reports
// [RoomFreed]. Facts that no other workload depends on need no event: a separate method records
// such a fact. An example is [Pods.Begins].
//
// [Engine.Turns] has the queued workloads, in the order of their turns. It has a separate lock,
// because it reads the quota ledger.
//
// # Presence
//
// A workload is present while it may have facts:
//
//	event          meaning
//	PodArrives     a pod waits for its place, or terminates on its node
//	GroupArrives   a group has a member in any state
//	PodRegroups    a pod with a node is in another group
//	PodBinds       the pod is bound: all facts about the pod end
//	PodLeaves      the pod is gone: all facts about the pod end, and the next pod of its controller
//	               inherits its pause
//	GroupLeaves    the last member is gone: all facts about members end
//
// The records hold facts only about workloads that are present. Extension points, the main loop and
// outcomes of API calls may report about a workload after it has left. Such a report changes
// nothing. So only these six events create and forget workloads.
//
// # Pods
//
// The record of a pod ([Pods]) has these facts:
//
//   - the state of its attempt
//   - its node in the plan of a gang, the node that it is assumed on, the node that it has given up
//   - its nomination in the API
//   - the report about a queue that it may not use
//
// The framework reports the life of a pod in pieces. One extension point begins an attempt, another
// receives the outcome, and an informer reports the binding. Each of these reports may be missing,
// because another plugin ends the attempt, or because the pod is deleted. [Pods] has a method for
// each report, and each call is one transition of one record. [Pods.Ends] resets the whole state of
// an attempt. [PodLeaves] deletes the record of a pod that is gone.
//
// The states of an attempt, and the events that lead from one to the next:
//
//	state     event      next state   reason
//	idle      Begins     tried        a cycle runs
//	tried     Hears      heard        an extension point has the outcome
//	heard     Assumes    assumed      the pod has a node, and may wait at Permit
//	assumed   Binds      no record    the pod is bound
//	assumed   GivesUp    tried        a later step failed
//	any       Ends       idle         the attempt ended without a place
//
// Rejects marks an assumed pod as rejected at Permit: the pod keeps its node until GivesUp. A pod
// that gave up its node counts as returning until a snapshot of the scheduler shows the node
// without the pod. If the pod is deleted before the framework has forgotten the node, the pod's
// record lasts until [Pods.Ends].
//
// # Groups
//
// The record of a group has parts, each with its own facts and events. The parts placing, run,
// ended and report end when the last member leaves ([GroupLeaves]):
//
//	part     has                                     begins with              ends with
//	object   minCount of the PodGroup                NeedsMembers             NeedsMembers(0)
//	         why its spec cannot be filled in        SetUnresolved            SetUnresolved(zero)
//	placing  the leader, the plan                    Admit, SetPlan           see below
//	         the verdict of planning                 SetVerdict               SetVerdict(zero)
//	run      since when the group is whole or not    Touch, EndLook           ForgetRun
//	ended    members whose result is unknown         AwaitResult              ResultKnown
//	kept     room that is kept for lost members      Keeps                    EndKept
//	report   messages for the pending members        FoundNoRoom, CheckReport Report, DropReport
//
// The states of a gang's placement, and the events that lead from one to the next:
//
//	state     event                   next state   reason
//	idle      Admit                   led          a member plans for the gang
//	led       SetPlan                 planned      the members have nodes in a plan
//	led       PassOn, MemberLeaves    idle         no member leads any more
//	planned   Reserve, for the last   idle         all members are reserved
//	planned   Release                 idle         the plan cannot be carried out
//
// Reserve makes one planned member a reserved member. The member stays reserved until Settled,
// MemberLeaves or Release.
//
// The package uses no Kubernetes packages, clock, I/O or goroutines. Its methods hold no lock while
// they call functions that the caller has passed. So extension points may call every method, even
// under a lock of the framework. All methods are safe for concurrent use.
package engine
