// Package bench measures Reprieve's decisions beside those of upstream's own preemption: both in one process, turn
// by turn, through the same framework on the same snapshot, with no API call on either side. `make bench` writes
// the table in docs/results/benchmarks.md; the shapes are also there as ordinary benchmarks, for benchstat and pprof.
package bench
