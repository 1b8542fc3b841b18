package scheduler

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Log lines have level 2 for events of a workload, level 4 for their reasons, and level 6 for each
// step. The key of a gang is podGroup, or preemptor if it needs room. The key of a pod is pod. The
// value is always "namespace/name", so that one search finds all lines about a workload.

// logOf returns a logger for events of a workload, inside or outside of a cycle.
func logOf(ctx context.Context, key workload.Key) klog.Logger {
	kind := "pod"
	if key.Gang {
		kind = "podGroup"
	}
	return klog.FromContext(ctx).WithValues(kind, klog.KRef(key.Namespace, key.Name))
}

// happened logs an event of a workload at level 2, with its reason from level 4 on.
func happened(logger klog.Logger, what, why string, values ...any) {
	if logger.V(4).Enabled() {
		values = append(values, "reason", why)
	}
	logger.V(2).Info(what, values...)
}

// logOfPreemptor returns a logger for actions that help a preemptor.
func (p *Plugin) logOfPreemptor(ctx context.Context, key workload.Key) klog.Logger {
	return klog.FromContext(ctx).WithValues("preemptor", klog.KRef(key.Namespace, key.Name), "profile", p.handle.ProfileName())
}
