package filters

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// mostIgnored is the maximum number of cached results of Ignores.
const mostIgnored = 1024

// Resources reports how the NodeResourcesFit plugin of a profile treats resources. It is safe for
// concurrent use.
type Resources struct {
	profile framework.Framework
	mu      sync.Mutex
	ignored map[corev1.ResourceName]bool
}

var _ snapshot.ResourceFilter = (*Resources)(nil)

// NewResources returns the Resources of a profile.
func NewResources(profile framework.Framework) *Resources {
	return &Resources{profile: profile, ignored: make(map[corev1.ResourceName]bool)}
}

// Ignores reports whether NodeResourcesFit ignores a resource on all nodes, for example because an
// extender manages it. The plugin does not expose its arguments, so Ignores runs the plugin on a
// test node.
func (r *Resources) Ignores(name corev1.ResourceName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ignored, ok := r.ignored[name]; ok {
		return ignored
	}
	if len(r.ignored) > mostIgnored {
		clear(r.ignored)
	}
	r.ignored[name] = r.takesTooMuch(name)
	return r.ignored[name]
}

// Delegates reports whether NodeResourcesFit leaves a resource to DynamicResources on nodes without
// the resource. The result is not cached, because DeviceClasses change.
func (r *Resources) Delegates(name corev1.ResourceName) bool { return Delegates(r.profile, name) }

// Delegates reports whether a DeviceClass maps to a resource. If so, NodeResourcesFit leaves the
// resource to DynamicResources on nodes without the resource. All profiles of a scheduler have the
// same DeviceClasses. Any goroutine may call it.
func Delegates(handle fwk.Handle, name corev1.ResourceName) bool {
	// The manager is nil if the feature gate DynamicResourceAllocation is off.
	manager := handle.SharedDRAManager()
	return manager != nil && manager.DeviceClassResolver().GetDeviceClass(name) != nil
}

// takesTooMuch reports whether NodeResourcesFit accepts a pod that requests 2 of a resource, on a
// test node with 1. The test node must have some of the resource. Without it, the plugin may accept
// the pod for another reason: a DeviceClass that maps to the resource.
func (r *Resources) takesTooMuch(name corev1.ResourceName) bool {
	fit, ok := preFilterOf(r.profile, names.NodeResourcesFit).(fwk.FilterPlugin)
	if !ok {
		return false
	}
	ctx := klog.NewContext(context.Background(), klog.Background())
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("2")}},
	}}}}
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("1"), name: resource.MustParse("1"),
	}}}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	state := framework.NewCycleState()
	if _, status := preFilterOf(r.profile, names.NodeResourcesFit).PreFilter(ctx, state, pod, nil); !status.IsSuccess() {
		return status.IsSkip()
	}
	return fit.Filter(ctx, state, pod, info).IsSuccess()
}
