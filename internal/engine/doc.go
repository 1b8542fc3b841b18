// Package engine keeps one record for each pod that is being scheduled ([Pods]), and one for each
// group ([Gangs]).
//
// # Pods
//
// The record of a pod has the state of its attempt, the node that it is assumed on, and the node
// that it has given up.
//
// The framework reports the life of a pod in pieces. One extension point begins an attempt, and
// another one learns its outcome; informers report the binding. Each piece may be missing: another
// plugin ends the attempt first, or the pod is deleted in between. [Pods] has a method for each of
// these events. Each event is one transition of one record. The end of an attempt resets its whole
// state ([Pods.Ends]), and a pod that leaves is one deletion ([Pods.Leaves]).
//
// The states of an attempt, and the events that lead from one to the next:
//
//	idle ── Begins ──► tried ── Hears ──► heard ── Assumes ──► assumed ── Places ──► (no record)
//	  ▲                  │                  │                    │  Rejects: rejected, until GivesUp
//	  └───── Ends ◄──────┴──────────────────┴──────── GivesUp ◄──┘
//
// A pod that gives up its node is returning until a cycle has seen the node without it.
//
// # Groups
//
// The record of a group has parts, each with its own facts and events. The parts placing, run,
// ended and report end when the last member leaves ([Gangs.Leaves]):
//
//	part     has                                     begins with        ends with
//	object   minCount of the PodGroup                NeedsMembers       the same, with 0
//	         why its spec cannot be filled in        SetUnresolved      the same, with none
//	placing  the leader, the plan                    Admit, SetPlan     Settled, Release
//	         members that are assumed on a node      Reserve            Settled, MemberLeaves
//	         the verdict of planning                 SetVerdict         the same, with none
//	run      since when the group is whole or not    Touch, EndLook     ForgetRun
//	ended    members whose result is unknown         AwaitResult        ResultKnown
//	kept     room that is kept for lost members      Keeps              EndKept
//	report   messages for the pending members        FoundNoRoom        Report, DropReport
//
// The states of a gang's placement, and the events that lead from one to the next:
//
//	idle ── Admit ──► led ── SetPlan ──► planned ── Reserve each ──► reserved
//	  ▲                │                    │                           │
//	  ├─ PassOn, MemberLeaves               │                           │
//	  ├───────────────── Release ◄──────────┘                           │
//	  └───────────────── Settled, MemberLeaves ◄────────────────────────┘
//
// The package is plain Go without Kubernetes, clock, I/O and goroutines. Its methods hold no lock
// while they call functions of the caller. So extension points that run under a lock of the
// framework may call all of them. They are safe for concurrent use.
package engine
