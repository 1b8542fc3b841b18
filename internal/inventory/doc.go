// Package inventory has the API objects that a scheduling decision depends on, all of them and at one moment: an
// [Inventory] is listed from a cluster with the caller's own rights ([List]), or read from a snapshot file ([Read]), and
// is the same value in both cases. It decides nothing; internal/whatif does that with the scheduler's own code.
//
// A snapshot file is JSON with a version of its own ([FileVersion]) and has the objects in an order of their own, so that
// the same objects make the same bytes. What no decision depends on is left out of it: who manages which field, what
// containers run, and with [Redact] all that may tell of the people who use the cluster but names and labels.
package inventory
