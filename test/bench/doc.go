// Package bench compares the time of Reprieve's decisions with the time of upstream's preemption.
// Both sides run alternately in one process, with the same framework and snapshot. They make no API
// calls. `make bench` writes the tables in docs/results/benchmarks.md. Go benchmarks measure the
// same clusters, for use with benchstat and pprof.
package bench
