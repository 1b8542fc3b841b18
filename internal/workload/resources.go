package workload

import "strings"

// IsGPU tells the extended resources that stand for GPUs, or parts of them, by their names: nvidia.com/gpu,
// nvidia.com/mig-1g.5gb, amd.com/gpu, gpu.intel.com/i915.
func IsGPU(resource string) bool {
	domain, rest, extended := strings.Cut(resource, "/")
	return extended && (strings.HasSuffix(rest, "gpu") || strings.HasPrefix(rest, "mig-") || strings.HasPrefix(domain, "gpu."))
}
