package scheduler

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Log lines are at level 2 where something happens to a workload, at 4 where they say why, and at 6 for each step. A gang
// stands under the key podGroup, or preemptor where it takes room, and a pod under pod, always as "namespace/name", so that
// a workload's whole story is found by its name.

// logOf is a logger for what happens to a workload, in a cycle or outside of one.
func logOf(ctx context.Context, key workload.Key) klog.Logger {
	kind := "pod"
	if key.Gang {
		kind = "podGroup"
	}
	return klog.FromContext(ctx).WithValues(kind, klog.KRef(key.Namespace, key.Name))
}

// happened logs what has happened to a workload, and from level 4 on why.
func happened(logger klog.Logger, what, why string, values ...any) {
	if logger.V(4).Enabled() {
		values = append(values, "reason", why)
	}
	logger.V(2).Info(what, values...)
}

// logOfPreemptor is a logger for what is done for a workload that needs room.
func (p *Plugin) logOfPreemptor(ctx context.Context, key workload.Key) klog.Logger {
	return klog.FromContext(ctx).WithValues("preemptor", klog.KRef(key.Namespace, key.Name), "profile", p.handle.ProfileName())
}
