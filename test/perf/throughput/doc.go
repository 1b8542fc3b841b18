// Package throughput has the workloads that compare Reprieve with kube-scheduler's own plugins, and
// the benchmark that runs them. The benchmark is upstream's scheduler_perf. It runs the API server,
// the scheduler and the load in one process, and etcd in another.
//
// performance-config.yaml has each workload twice: ".../upstream" with upstream's plugins, and
// ".../reprieve". They differ in the scheduler's configuration and, for gangs, in the feature gates
// and the API of the PodGroups.
package throughput
