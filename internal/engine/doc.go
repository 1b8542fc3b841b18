// Package engine keeps one record for each pod that is being scheduled. The record has the state of
// its attempt, the node that it is assumed on, and the node that it has given up.
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
// The package is plain Go without Kubernetes, clock, I/O and goroutines. Its methods never call
// out, so extension points that run under a lock of the framework may call all of them. They are
// safe for concurrent use.
package engine
