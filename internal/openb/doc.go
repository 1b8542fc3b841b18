// Package openb reads the trace openb of Alibaba's Cluster Trace Program (cluster-trace-gpu-v2023).
// The trace lists the nodes of a GPU cluster and the pods that arrived in five months. [Read] reads
// both lists as they are published. It skips and counts broken lines.
//
// [Trace.Input] converts the trace to the input of a simulation. The trace has the arrivals,
// requests and running times of pods. [Shape] sets the other parts. Pauses and running times are
// scaled so that the trace fills a cluster for a day. Pods of one shape that arrive together form a
// gang. A seed distributes the work among queues.
package openb
