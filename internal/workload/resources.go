package workload

import "strings"

// IsGPU reports whether the name of an extended resource denotes GPUs or parts of GPUs. Examples
// are nvidia.com/gpu, nvidia.com/mig-1g.5gb, amd.com/gpu and gpu.intel.com/i915.
func IsGPU(resource string) bool {
	domain, rest, extended := strings.Cut(resource, "/")
	return extended && (strings.HasSuffix(rest, "gpu") || strings.HasPrefix(rest, "mig-") || strings.HasPrefix(domain, "gpu."))
}
