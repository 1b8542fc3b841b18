// Package inventory holds the API objects that scheduling decisions depend on, as of one moment. An
// [Inventory] is listed from a cluster with the caller's own rights ([List]), or read from a
// snapshot file ([Read]). Both ways produce the same value. The package makes no decisions;
// internal/whatif runs the scheduler's own code on an Inventory.
//
// A snapshot file is JSON with its own version ([FileVersion]). The objects are sorted, so the same
// objects always produce the same bytes. The file lacks fields that no decision depends on, such as
// managed fields and the commands of containers. [Redact] also drops data about the users of the
// cluster, except names and labels.
package inventory
