// Package playground runs a whole Kubernetes control plane on one machine. It starts etcd,
// kube-apiserver, kube-controller-manager, kwok and a scheduler as child processes. kwok simulates
// the nodes.
//
// The command `playground up` uses the package, and integration tests use it in their own process.
// Nodes and pods behave as in a real cluster: bound pods become Running, deleted pods terminate for
// their grace period, and finalizers delay deletion. No program runs inside the pods. Every port is
// on 127.0.0.1, so no network is needed.
//
// A Playground owns its processes, its goroutines and its files. [Playground.Stop] ends and removes
// all of them. On Linux, the processes also end when their parent process is killed.
package playground
