package workload

import "testing"

func TestIsGPU(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]bool{
		"nvidia.com/gpu": true, "nvidia.com/mig-1g.5gb": true, "amd.com/gpu": true, "gpu.intel.com/i915": true,
		"cpu": false, "gpu": false, "example.com/fpga": false, "hugepages-2Mi": false,
	} {
		if got := IsGPU(resource); got != want {
			t.Errorf("IsGPU(%q) is %v, want %v", resource, got, want)
		}
	}
}
