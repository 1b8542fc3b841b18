package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// running returns an error unless exactly count pods exist and all of these pods run.
func running(pods []corev1.Pod, count int) error {
	n := 0
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning && pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	if n != count || len(pods) != count {
		return fmt.Errorf("%d of %d pods run, want %d", n, len(pods), count)
	}
	return nil
}

// nonePlaced returns an error unless exactly count pods exist and no pod has a node. Kubernetes
// never removes the node of a pod, so no pod had a node earlier.
func nonePlaced(pods []corev1.Pod, count int) error {
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "" {
			return fmt.Errorf("pod %s has the node %s, want none", pods[i].Name, node)
		}
	}
	if len(pods) != count {
		return fmt.Errorf("%d pods exist, want %d", len(pods), count)
	}
	return nil
}

// remaining counts the pods that have one of the UIDs and are not terminating.
func remaining(pods []corev1.Pod, uids []types.UID) int {
	n := 0
	for i := range pods {
		if slices.Contains(uids, pods[i].UID) && pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// nodesOf returns the number of different nodes that run the pods.
func nodesOf(pods []corev1.Pod) int {
	nodes := make(map[string]bool)
	for i := range pods {
		nodes[pods[i].Spec.NodeName] = true
	}
	return len(nodes)
}
