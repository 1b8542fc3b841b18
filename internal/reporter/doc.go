// Package reporter reports to users why pods wait, in conditions and events. It covers three kinds
// of pods that no scheduling cycle reports on:
//
//   - Members of a gang without a cycle of their own. One member plans for its gang, so the
//     framework writes the condition of that member only. [Reporter.ReportMembers] writes the same
//     verdict to the others (gangs.go).
//   - Single pods that may not use their queue, or that the bound on drivers blocks.
//     [Reporter.ReportBlocked] writes the verdict (singles.go).
//   - Work that waits long for its first turn in a queue; see [Reporter.ReportTurns] (singles.go).
//
// Decisions and the gate record their verdicts at once, and the main loop writes them at its ticks.
// A lack of room gets the reason that makes a cluster autoscaler add nodes. Other reasons do not,
// because added nodes would not help.
//
// The number of calls is bounded. A tick reports to at most a hundred members of gangs, and to at
// most a hundred single pods. A gang without room gets its first report after a delay, and further
// reports only at intervals; internal/engine has the times. The package has no state of its own:
// the records in internal/engine have the verdicts and the times of the reports. It retries no
// workload.
package reporter
