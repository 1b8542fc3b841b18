// Package fragmentation measures the free devices of a node that a typical workload cannot use. It
// implements the criterion of FGD (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
// Workloads with Fragmentation Gradient Descent", USENIX ATC '23).
//
// The package is plain Go: no Kubernetes types, no clock, no I/O. All amounts are vectors with one
// value per resource. A [Mix] is the typical workload: kinds of pods, with the frequency of each
// kind. The fragmentation of a node is the expected number of its free devices that the next pod of
// the mix cannot use ([Mix.Unusable]). The fragmentation of a cluster is the sum over its nodes. A
// placement changes the sum by [Mix.Rise]. FGD places a pod on the node with the lowest rise.
//
// FGD also counts free parts of a device that pods share. Here devices are counted whole, because
// Reprieve does not share a device among pods.
package fragmentation
