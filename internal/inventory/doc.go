// Package inventory holds the API objects that a scheduling decision depends on, as of one moment.
// An [Inventory] is listed from a cluster with the caller's own rights ([List]), or read from a
// snapshot file ([Read]). The value is the same in both cases. The package decides nothing;
// internal/whatif runs the scheduler's own code on an Inventory.
//
// A snapshot file is JSON with its own version ([FileVersion]). The objects are sorted, so the same
// objects always produce the same bytes. Fields that no decision depends on are dropped, such as
// managed fields and the commands of containers. [Redact] also drops data about the people who use
// the cluster, except names and labels.
package inventory
