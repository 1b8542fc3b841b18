// Package playground runs a whole Kubernetes control plane on one machine. It starts etcd,
// kube-apiserver, kube-controller-manager and kwok as child processes, with a scheduler on top.
// kwok simulates the nodes.
//
// `playground up` runs it, and the integration tests run it in-process. The API server sees nodes
// and pods behave as in a real cluster. Bound pods become Running, deleted pods stay for their
// grace period, and finalizers block deletion. No program runs inside a pod. No network is needed,
// because every port is on 127.0.0.1.
//
// A Playground owns its processes, its goroutines and its files. [Playground.Stop] ends and removes
// all of them. On Linux, the processes also end if their parent process is killed.
package playground
