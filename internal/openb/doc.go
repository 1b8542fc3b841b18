// Package openb reads openb, a trace of Alibaba's Cluster Trace Program (cluster-trace-gpu-v2023).
// The trace lists the nodes of a GPU cluster and the pods that arrived in five months. [Read] reads
// both lists in their published form. It skips invalid lines and counts them.
//
// [Trace.Input] converts the trace to the input of a simulation. The trace has the arrival times,
// requests and running times of pods. A [Shape] determines the rest: it can scale the pauses
// between arrivals and the running times, for example to fill a cluster for a day. It can also form
// gangs of pods with equal requests and QoS that arrive together. A seed distributes the work among
// queues.
package openb
