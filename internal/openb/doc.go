// Package openb reads the trace openb of Alibaba's Cluster Trace Program (cluster-trace-gpu-v2023): the nodes of a GPU
// cluster, and the pods that came to it in five months. [Read] takes the two lists as they are published; a line that is
// broken is left out and counted.
//
// [Trace.Input] makes the input of a simulation of it. The trace says when pods came, what they asked for and how long
// they ran. It does not say everything that a simulation needs, so the rest is chosen, by rules that [Shape] names:
// pauses and lengths are scaled so that the trace fills a cluster for a day, pods of one shape that came together are a
// gang, and each is in one of some queues by a seed.
package openb
