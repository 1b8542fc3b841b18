// Package logging logs events of workloads.
//
// Log lines about events of a workload have level 2, lines about reasons level 4, and lines about
// single steps level 6. The workload of a line is the value of one of three keys. The key is
// "podGroup" for a gang, "pod" for a single pod, or "preemptor" for a workload that needs room. The
// value is always "namespace/name", so one search finds all lines about a workload.
package logging

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Of returns a logger with the key of a workload.
func Of(ctx context.Context, key workload.Key) klog.Logger {
	kind := "pod"
	if key.Gang {
		kind = "podGroup"
	}
	return klog.FromContext(ctx).WithValues(kind, klog.KRef(key.Namespace, key.Name))
}

// Happened logs an event of a workload at level 2. From level 4 on, the line includes the reason.
func Happened(logger klog.Logger, what, why string, values ...any) {
	if logger.V(4).Enabled() {
		values = append(values, "reason", why)
	}
	logger.V(2).Info(what, values...)
}
