package filters

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// devicePlugin is the plugin DynamicResources, which allocates the devices of ResourceClaims.
type devicePlugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PostFilterPlugin
}

// HeldDevices has pods whose ResourceClaims were allocated in an earlier cycle that did not bind
// the pods. Such a claim limits its pod to some nodes, and other pods cannot use the devices.
// DynamicResources deallocates the claim if its Filter rejects the pod. If the gang is rejected
// before the filters run, the plugin never sees the members of the gang. So HeldDevices calls the
// plugin for these members.
type HeldDevices struct {
	plugin devicePlugin
	pods   []*corev1.Pod
	// states has the cycle state of each pod, after Filter has run for all nodes.
	states []fwk.CycleState
}

// Empty reports whether there are no pods with held devices.
func (h *HeldDevices) Empty() bool { return len(h.pods) == 0 }

// FindHeldDevices returns the held devices of the given pods. It uses the nodes of the cycle's
// snapshot, so call it in the scheduling cycle.
func FindHeldDevices(ctx context.Context, profile framework.Framework, pods []*corev1.Pod) (*HeldDevices, error) {
	held := &HeldDevices{}
	pl, ok := preFilterOf(profile, names.DynamicResources).(devicePlugin)
	if !ok {
		return held, nil
	}
	stale, err := staleClaims(profile, pods)
	if err != nil || len(stale) == 0 {
		return held, err
	}
	infos, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes of the snapshot: %w", err)
	}
	held.plugin = pl
	for _, pod := range stale {
		state := framework.NewCycleState()
		if _, status := pl.PreFilter(ctx, state, pod, infos); !status.IsSuccess() {
			continue
		}
		for _, info := range infos {
			// The plugin stores its result in the cycle state.
			pl.Filter(ctx, state, pod, info)
		}
		held.pods, held.states = append(held.pods, pod), append(held.states, state)
	}
	return held, nil
}

// Release deallocates one claim of each pod through the API. It returns the number of deallocated
// claims. Any goroutine may call it, but only once.
func (h *HeldDevices) Release(ctx context.Context) (released int, err error) {
	for i, pod := range h.pods {
		_, status := h.plugin.PostFilter(ctx, h.states[i], pod, nil)
		switch {
		case !status.IsSuccess() && !status.IsRejected():
			err = errors.Join(err, fmt.Errorf("give back the devices of pod %s/%s: %w", pod.Namespace, pod.Name, status.AsError()))
		case status.Message() != "":
			released++
		}
	}
	return released, err
}

// staleClaims returns the pods with a device claim that may be deallocated. The claim is allocated,
// or was created for an extended resource, and it is not reserved for another pod.
func staleClaims(profile framework.Framework, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	manager := profile.SharedDRAManager()
	if manager == nil || !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return UsesDevices(profile, pod) }) {
		return nil, nil
	}
	claims, err := manager.ResourceClaims().List()
	if err != nil {
		return nil, fmt.Errorf("list claims of devices: %w", err)
	}
	named, owned := make(map[types.NamespacedName]*resourceapi.ResourceClaim), make(map[types.UID]*resourceapi.ResourceClaim)
	for _, claim := range claims {
		byName := claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
		if claim.Status.Allocation == nil && !byName || len(claim.Status.ReservedFor) > 1 || manager.ResourceClaims().GetPendingAllocation(claim.UID) != nil {
			continue
		}
		named[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = claim
		for _, owner := range claim.OwnerReferences {
			owned[owner.UID] = claim
		}
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		isHeld := func(claim *resourceapi.ResourceClaim) bool {
			return claim != nil && (len(claim.Status.ReservedFor) == 0 || isReservedFor(claim, pod))
		}
		return !isHeld(owned[pod.UID]) && !slices.ContainsFunc(claimNames(pod), func(name string) bool {
			return isHeld(named[types.NamespacedName{Namespace: pod.Namespace, Name: name}])
		})
	}), nil
}

// Claims reports whether a pod uses the given ResourceClaim.
func Claims(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	return pod.Namespace == claim.Namespace && (slices.Contains(claimNames(pod), claim.Name) ||
		slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod.UID }))
}

// UsesDevices reports whether a pod uses devices, through a ResourceClaim or through a resource
// that a DeviceClass maps to.
func UsesDevices(profile framework.Framework, pod *corev1.Pod) bool {
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

// claimNames returns the names of a pod's ResourceClaims, including claims that are created from a
// template.
func claimNames(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.ResourceClaims {
		if name := claimName(pod, &pod.Spec.ResourceClaims[i]); name != nil {
			out = append(out, *name)
		}
	}
	return out
}

// claimName returns the name of one ResourceClaim of a pod; nil if the claim does not exist yet.
func claimName(pod *corev1.Pod, claim *corev1.PodResourceClaim) *string {
	name := claim.ResourceClaimName
	for i := range pod.Status.ResourceClaimStatuses {
		if s := &pod.Status.ResourceClaimStatuses[i]; s.Name == claim.Name {
			name = s.ResourceClaimName
		}
	}
	return name
}

func isReservedFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
}
