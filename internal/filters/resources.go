package filters

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// mostIgnored bounds how many resources are remembered.
const mostIgnored = 1024

// Resources tells which scalar resources a profile's NodeResourcesFit counts. Only scheduling cycles use it.
type Resources struct {
	profile framework.Framework
	ignored map[corev1.ResourceName]bool
}

var _ snapshot.ResourceFilter = (*Resources)(nil)

// NewResources asks the plugin of a profile.
func NewResources(profile framework.Framework) *Resources {
	return &Resources{profile: profile, ignored: make(map[corev1.ResourceName]bool)}
}

// Ignores reports whether the plugin leaves a resource to others: to an extender that manages it, or to none. The plugin
// does not show its arguments, so it is tried on a node without the resource.
func (r *Resources) Ignores(name corev1.ResourceName) bool {
	if ignored, ok := r.ignored[name]; ok {
		return ignored
	}
	if len(r.ignored) > mostIgnored {
		clear(r.ignored)
	}
	r.ignored[name] = r.fitsWithout(name)
	return r.ignored[name]
}

// fitsWithout reports whether a pod that asks for a resource passes the filter on a node without it.
func (r *Resources) fitsWithout(name corev1.ResourceName) bool {
	fit, ok := preFilterOf(r.profile, names.NodeResourcesFit).(fwk.FilterPlugin)
	if !ok {
		return false
	}
	ctx := klog.NewContext(context.Background(), klog.Background())
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}},
	}}}}
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	state := framework.NewCycleState()
	if _, status := preFilterOf(r.profile, names.NodeResourcesFit).PreFilter(ctx, state, pod, nil); !status.IsSuccess() {
		return status.IsSkip()
	}
	return fit.Filter(ctx, state, pod, info).IsSuccess()
}
