// Package reservation holds the room that is set aside for pods until they are on their nodes. One
// [Book] serves all plans and nominations of a scheduler.
//
// A reservation begins with a decision ([Book.Keep]) and ends in one of two ways:
//
//   - The scheduler assumes the pod on a node, and its cache counts the pod from then on
//     ([Book.Use]).
//   - The pod will not use the room, and other workloads may ([Book.Release], [Book.ReleasePod], or
//     a Keep without the pod).
//
// There is no third way, so no room stays blocked for a workload that no longer exists.
//
// The framework's nominations and status.nominatedNodeName show reservations to other components.
// They do not protect the room: they rank pods by the pods' own priority, and an event about the
// pod after the planning removes them. When a reservation ends unused, this package clears the
// nominations ([Scheduler.Withdraw]) and reports the free room ([Scheduler.Freed]).
package reservation
