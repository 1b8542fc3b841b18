package filters

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// devicePlugin is the plugin for claims of devices.
type devicePlugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PostFilterPlugin
}

// ReleaseDevices has one claim given back that was allocated to one of some pods before, where it is in the way of the pod and of no use
// to any other: the pod was not bound then, and there is no room for it where the devices are. DynamicResources does that by itself for a
// pod that its Filter has refused in its cycle. Members of a gang that is turned away before that are none; it is asked about them here, on
// the nodes of the cycle's snapshot. It reports whether a claim was given back, which is a call to the API.
func ReleaseDevices(ctx context.Context, profile framework.Framework, pods []*corev1.Pod) (bool, error) {
	pl, ok := preFilterOf(profile, names.DynamicResources).(devicePlugin)
	if !ok {
		return false, nil
	}
	stale, err := staleClaims(profile, pods)
	if err != nil || len(stale) == 0 {
		return false, err
	}
	infos, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false, fmt.Errorf("list nodes of the snapshot: %w", err)
	}
	for _, pod := range stale {
		state := framework.NewCycleState()
		if _, status := pl.PreFilter(ctx, state, pod, infos); !status.IsSuccess() {
			continue
		}
		for _, info := range infos {
			// What it says is left in the state.
			pl.Filter(ctx, state, pod, info)
		}
		_, status := pl.PostFilter(ctx, state, pod, nil)
		switch {
		case !status.IsSuccess() && !status.IsRejected():
			return false, fmt.Errorf("give back the devices of pod %s/%s: %w", pod.Namespace, pod.Name, status.AsError())
		case status.Message() != "":
			return true, nil
		}
	}
	return false, nil
}

// staleClaims are the pods with a claim that is allocated, and reserved for no other pod.
func staleClaims(profile framework.Framework, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	manager := profile.SharedDRAManager()
	if manager == nil || !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return usesDevices(profile, pod) }) {
		return nil, nil
	}
	claims, err := manager.ResourceClaims().List()
	if err != nil {
		return nil, fmt.Errorf("list claims of devices: %w", err)
	}
	named, owners := sets.New[types.NamespacedName](), sets.New[types.UID]()
	for _, claim := range claims {
		if claim.Status.Allocation == nil || manager.ResourceClaims().GetPendingAllocation(claim.UID) != nil {
			continue
		}
		named.Insert(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		for _, owner := range claim.OwnerReferences {
			owners.Insert(owner.UID)
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return !owners.Has(pod.UID) && !slices.ContainsFunc(claimNames(pod), func(name string) bool {
			return named.Has(types.NamespacedName{Namespace: pod.Namespace, Name: name})
		})
	}), nil
}

// usesDevices reports whether a pod claims devices, by claims or by a resource that a DeviceClass maps.
func usesDevices(profile framework.Framework, pod *corev1.Pod) bool {
	if len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	for i := range pod.Spec.Containers {
		for name := range pod.Spec.Containers[i].Resources.Requests {
			if Delegates(profile, name) {
				return true
			}
		}
	}
	return false
}

// claimNames are the names of the claims for devices that a pod names, or that were made for it by a template.
func claimNames(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.ResourceClaims {
		if name := claimName(pod, &pod.Spec.ResourceClaims[i]); name != nil {
			out = append(out, *name)
		}
	}
	return out
}

// claimName is the name of one of them; nil where none has been made.
func claimName(pod *corev1.Pod, claim *corev1.PodResourceClaim) *string {
	name := claim.ResourceClaimName
	for i := range pod.Status.ResourceClaimStatuses {
		if s := &pod.Status.ResourceClaimStatuses[i]; s.Name == claim.Name {
			name = s.ResourceClaimName
		}
	}
	return name
}

// isReservedFor reports whether a claim is reserved for a pod.
func isReservedFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
}
