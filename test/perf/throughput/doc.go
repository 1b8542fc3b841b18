// Package throughput has the workloads that compare Reprieve with kube-scheduler, and the benchmark
// that runs them. The benchmark is upstream's scheduler_perf. It runs the API server, the scheduler
// and the load in one process, and etcd in another process.
//
// performance-config.yaml has each workload twice: ".../upstream" for kube-scheduler's plugins, and
// ".../reprieve" for Reprieve. They differ in the scheduler's configuration. For gangs, they also
// differ in the feature gates and in the API group of the PodGroups.
package throughput
