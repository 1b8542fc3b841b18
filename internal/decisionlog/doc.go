// Package decisionlog is the record that a scheduler keeps of its decisions: what a line of it says, the latest lines in
// memory, and all of them in a file.
//
// A [Record] is one decision with what became of it. Its JSON has a version, [Schema], and docs/decisions.md has every
// field; [Parse] reads it back and refuses what it does not know. The package knows decisions as package core makes them
// and nothing of Kubernetes, so that whatever reads the record can import it.
//
// Between them there may be [Inputs]: what decisions went by, as objects of the API that the package leaves as they are.
// internal/inputs writes and internal/replay reads them. A [WaitEnd] says how the wait of a
// workload ended that a decision was about.
//
// A [Log] takes records from scheduling cycles, which must not wait: it keeps the latest ones in memory and hands each to
// one goroutine, [Log.Run], which writes. Where that falls behind, records are left out of the file and counted. A decision
// that is being carried out is in memory at once ([Log.Follow]), and in the file when it is known what became of it.
//
// A [File] is where lines go: it is rotated by size, and no line is cut in two.
package decisionlog
