// Package progress finds steps of the scheduler that never end. A step is a turn of the main loop
// or a decision. A deadlock or an endless loop shows as a step that is far too old, and only a
// restart of the process helps then.
//
// The scheduler calls [Steps.Begin] for each step. The health check /livez asks [Steps.Stalled],
// which takes no lock of the scheduler, so it answers even while the scheduler stalls. The first
// answer about a step logs the stacks of all goroutines, because the restart removes the cause from
// sight.
package progress
