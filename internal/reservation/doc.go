// Package reservation keeps the room that has been promised to pods which are not on their nodes yet: one [Book] for
// all plans and nominations of a scheduler.
//
// A reservation begins with a decision ([Book.Keep]). It ends in one of two ways, whatever the reason: the pod is
// assumed on its node, and the scheduler's cache counts it from then on ([Book.Use]); or it will not use the room
// ([Book.Release], [Book.ReleasePod], or a Keep that leaves it out), and that goes to others. There is no third way,
// so that no room stays blocked for a workload that has gone.
//
// The framework's own nominations and status.nominatedNodeName show reservations to others, and do not keep the room
// well enough: they are lost when an event about the pod arrives after the planning, and they go by the pods' own
// priority. They are projections of the book: it has its [Scheduler] take back what they show, in the one place where a
// reservation ends without having been used, and tells it then that there is room for others.
package reservation
