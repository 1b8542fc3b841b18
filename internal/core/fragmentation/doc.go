// Package fragmentation measures the free devices of a node that a typical workload cannot use. It
// has the criterion of FGD (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads
// with Fragmentation Gradient Descent", USENIX ATC '23).
//
// The package is plain Go: no Kubernetes types, no clock, no I/O. All amounts are vectors of one
// set of resources. A [Mix] is the typical workload: kinds of pods, with the frequency of each. The
// fragmentation of a node is the expected number of its free devices that the next pod of the mix
// cannot use ([Mix.Unusable]). The fragmentation of a cluster is the sum over its nodes. A
// placement changes it by [Mix.Rise]. FGD uses the node with the lowest rise.
//
// Devices are whole. FGD also counts free parts of a device that is shared by pods. Reprieve does
// not share devices among pods, so this package has no such parts.
package fragmentation
