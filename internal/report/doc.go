// Package report makes a page from records of decisions. The page shows which workloads were
// evicted, with the time, the rule and the lost work. It also shows workloads that evicted each
// other repeatedly.
//
// The package works in three steps. [Read] reads decision logs as values of [Entry] and skips
// broken lines. Preemptions that are known from other sources, such as statuses and events, can be
// added as entries. [Build] makes a [Report] from the entries, with all sums and findings. It is a
// value with a JSON form, and the same entries always give the same report. [Write] writes a page
// with the report: one HTML file without dependencies.
//
// The page only draws the report. Its sources are in web/. The command make web builds them into
// page/, which this package embeds.
package report
