// Package playground runs a whole Kubernetes control plane on one machine: etcd, kube-apiserver,
// kube-controller-manager and kwok, which simulates the nodes, as child processes, and a scheduler on top.
//
// It is what `playground up` runs, and what the integration tests run in-process. Nodes and pods behave as the API
// server would see them behave on a real cluster: bound pods go Running, deleted pods stay for their grace period,
// finalizers hold. Nothing runs inside a pod, and nothing needs a network: every port is on 127.0.0.1.
//
// A Playground owns its processes, its goroutines and its files. [Playground.Stop] ends and removes all of them. On
// Linux the processes also end when the process that started them is killed.
package playground
