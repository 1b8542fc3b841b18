package deploy

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// kubelet does the work of a kubelet, and of the default scheduler, for the Pods of the Deployment:
//
//   - It runs the scheduler's binary with the arguments of each Pod.
//   - When the process is ready, it binds the Pod to a node, and sets the Pod's condition Ready.
//   - When the Pod is deleted, it ends the process.
//
// The controllers of the cluster roll out the Deployment.
type kubelet struct {
	*cluster
	// pool is the name of the pool with the node for the Pods.
	pool    string
	running map[types.UID]*playground.Component
}

// pods returns the Pods of the Deployment that are not terminating.
func (k *kubelet) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	return slices.DeleteFunc(k.all(t), func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

func (k *kubelet) all(t *testing.T) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := k.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// tick stops the processes of terminating Pods and removes these Pods. It also starts the process
// of at most one new Pod.
func (k *kubelet) tick(t *testing.T) {
	t.Helper()
	pods := k.pods(t)
	for uid, scheduler := range k.running {
		if slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.UID == uid }) {
			continue
		}
		t.Logf("%s ends", scheduler.Name())
		if err := scheduler.Kill(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		delete(k.running, uid)
	}
	for _, pod := range k.all(t) {
		if pod.DeletionTimestamp == nil || k.running[pod.UID] != nil {
			continue
		}
		if err := k.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	for i := range pods {
		pod := &pods[i]
		if k.running[pod.UID] != nil {
			continue
		}
		t.Logf("%s starts", pod.Name)
		k.startPod(t, pod.Name, &pod.Spec, k.mounted(t, pod), k.kubeconfig(t))
		k.running[pod.UID] = k.schedulers[len(k.schedulers)-1]
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: k.nodeOf(t, k.pool).Name}}
		// Ignore a missing Pod. It may have been deleted while its process started.
		if err := k.SubResource("binding").Create(t.Context(), pod, binding); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return
	}
}

// mounted returns the current content of the ConfigMap that a Pod mounts.
func (k *kubelet) mounted(t *testing.T, pod *corev1.Pod) *corev1.ConfigMap {
	t.Helper()
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		config := &corev1.ConfigMap{}
		if err := k.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: volume.ConfigMap.Name}, config); err != nil {
			t.Fatal(err)
		}
		return config
	}
	t.Fatalf("Pod %s mounts no ConfigMap", pod.Name)
	return nil
}

// settle waits until the rollout is complete: the Deployment has the desired number of Pods, all
// with the newest template, and no other process runs. If there is no Deployment, it waits until no
// process runs.
func (k *kubelet) settle(t *testing.T) {
	t.Helper()
	eventually(t, "the rollout", func(ctx context.Context) string {
		k.tick(t)
		wanted := 0
		deployment := &appsv1.Deployment{}
		err := k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment)
		if client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		if err == nil {
			wanted = int(ptr.Deref(deployment.Spec.Replicas, 1))
			if s := deployment.Status; s.ObservedGeneration != deployment.Generation || int(s.UpdatedReplicas) != wanted || int(s.AvailableReplicas) != wanted {
				return fmt.Sprintf("%d are wanted, %d of generation %d are available", wanted, s.AvailableReplicas, s.ObservedGeneration)
			}
		}
		if pods := len(k.pods(t)); pods != wanted || len(k.running) != wanted {
			return fmt.Sprintf("there are %d Pods, of which %d run; want %d", pods, len(k.running), wanted)
		}
		return ""
	})
}
