// Package drivers bounds the number of drivers without workers. A driver is a pod that creates its
// workers after it has started. Too many drivers can occupy all room, so that no driver has room
// for workers. [Bounds] therefore blocks a driver while the allowed number of other drivers (the
// argument drivers.withoutWorkers) have a place and lack workers.
//
// The package keeps no state about drivers. Each check counts the drivers in the informers. The
// caller repeats the check of blocked drivers at intervals, and after each change of a driver or
// worker.
package drivers
