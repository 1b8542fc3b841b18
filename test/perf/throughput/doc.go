// Package throughput holds the workloads on which Reprieve is measured beside kube-scheduler's own plugins, and
// the benchmark that runs them: upstream's scheduler_perf, which has the API server, the scheduler and the load
// in one process and etcd beside it.
//
// performance-config.yaml has each workload twice: ".../upstream" with upstream's plugins, and ".../reprieve".
// What differs is the scheduler's configuration and, for gangs, the feature gates and the API of the PodGroups.
package throughput
