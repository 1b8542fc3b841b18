// Package report creates a page from records of decisions. The page shows the evicted workloads,
// each with the time, the rule and the lost work. It also shows workloads that evicted each other
// repeatedly.
//
// A report is created in three steps:
//
//   - [Read] reads decision logs as a list of [Entry] and skips invalid lines. Callers can add
//     entries for preemptions that they know from other sources, such as statuses and events.
//   - [Build] creates a [Report] from the entries. It has all sums and findings, and a JSON form.
//     The same entries always result in the same report.
//   - [Write] writes a page that shows the report, as one HTML file without dependencies.
//
// The page only displays the report. Its sources are in web/. The command make web builds them into
// the directory page/, which this package embeds.
package report
