// Package bench compares Reprieve's decisions with upstream's own preemption. Both run in one
// process, in turns, through the same framework on the same snapshot. Neither makes an API call.
// `make bench` writes the table in docs/results/benchmarks.md. The shapes are also ordinary
// benchmarks, for benchstat and pprof.
package bench
