package queue

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// TestRequestIsTheSchedulers checks that the ledger counts the same request for a pod as the
// scheduler counts on a node.
func TestRequestIsTheSchedulers(t *testing.T) {
	cpu := func(v string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(v), "memory": resource.MustParse("1Gi")}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"as it comes":   func(*corev1.Pod) {},
		"with overhead": func(p *corev1.Pod) { p.Spec.Overhead = cpu("1") },
		"with overhead that the kubelet has told of": func(p *corev1.Pod) {
			p.Spec.Overhead = cpu("1")
			p.Status.AllocatedResources, p.Status.Resources = cpu("3"), &corev1.ResourceRequirements{Requests: cpu("3")}
		},
		"resized, a container": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: cpu("4")}}
		},
		"asked for as a whole": func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("3")} },
		"resized as a whole": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("3")}
			p.Status.AllocatedResources, p.Status.Resources = cpu("5"), &corev1.ResourceRequirements{Requests: cpu("5")}
		},
		"beside what comes first": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpu("7")}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: cpu("2")}}}}}
			change(p)
			want := (&framework.PodInfo{Pod: p}).CalculateResource().Resource
			if got := RequestOf(p); got["cpu"] != want.GetMilliCPU() || got["memory"] != want.GetMemory() {
				t.Errorf("it counts with %v, and on its node with %v", got, want)
			}
		})
	}
}

// TestRequestsStayWithinRange checks that the sum of huge requests does not overflow.
func TestRequestsStayWithinRange(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"memory": resource.MustParse("7E"), "cpu": resource.MustParse("9E"), "gpu": resource.MustParse("8")},
	}}}}}
	sum := make(Amounts)
	for range 100_000 {
		sum.Add(RequestOf(pod))
	}
	for name, v := range sum {
		if v <= 0 {
			t.Errorf("100,000 pods ask for %d of %s", v, name)
		}
	}
	if got := sum["gpu"]; got != 800_000 {
		t.Errorf("They ask for %d GPUs", got)
	}
}

// TestGrants checks that quotas and limits are rounded down, and requests up.
func TestGrants(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ request, grant int64 }{
		"500m": {1, 0}, "1": {1, 1}, "1500m": {2, 1}, "2.0": {2, 2}, "0": {0, 0}, "1n": {1, 0}, "9000P": {9e18, 9e18}, "100E": {fairshare.MaxAmount, fairshare.MaxAmount},
	} {
		list := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(text)}
		if got := AmountsOf(list)["nvidia.com/gpu"]; got != want.request {
			t.Errorf("A request of %s has %d units, want %d", text, got, want.request)
		}
		if got := grantOf(list)["nvidia.com/gpu"]; got != want.grant {
			t.Errorf("A quota of %s has %d units, want %d", text, got, want.grant)
		}
	}
	if got := grantOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")})[corev1.ResourceCPU]; got != 1500 {
		t.Errorf("A quota of 1500m CPUs has %d milli-CPUs", got)
	}
}

// TestVeryLargeAmounts checks that a limit that overflows an int64 in milli-CPUs is read as a huge
// limit.
func TestVeryLargeAmounts(t *testing.T) {
	for _, q := range []string{"9P", "10P", "1E", "9223372036854775807"} {
		if got := AmountsOf(corev1.ResourceList{"cpu": resource.MustParse(q), "gpu": resource.MustParse(q)}); got["cpu"] < 1<<60 || got["gpu"] < 1<<50 {
			t.Errorf("%s is read as %v", q, got)
		}
	}
}

// TestSumOfContainers checks a pod whose containers request more than an int64 holds. The ledger
// must count a huge amount, and not a negative one.
func TestSumOfContainers(t *testing.T) {
	const most = "9223372036854775807"
	container := corev1.Container{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"memory": resource.MustParse(most), "cpu": resource.MustParse(most), "gpu": resource.MustParse(most)},
	}}
	for containers := 1; containers <= 4; containers++ {
		pod := &corev1.Pod{}
		for range containers {
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
		for _, name := range []corev1.ResourceName{"memory", "cpu", "gpu"} {
			if got := RequestOf(pod)[name]; got != mostRequested {
				t.Errorf("%d containers count with %d of %s", containers, got, name)
			}
		}
	}
}

// TestLargeNodes checks that the capacity stays positive if nodes report huge amounts. The capacity
// must be exact again after these nodes are deleted.
func TestLargeNodes(t *testing.T) {
	b := boardOf(queueUnder("a", ""))
	names := []string{"v", "w", "x", "y", "z"}
	for _, name := range names {
		b.SetNode(node(name, 9223372036854775807))
		if got := b.capacity[gpu]; got <= 8 {
			t.Errorf("the capacity is %d", got)
		}
	}
	for _, name := range names {
		b.DeleteNode(name)
	}
	if got := b.capacity[gpu]; got != 8 {
		t.Errorf("the capacity is %d, want that of the node of 8", got)
	}
}

// TestSumsEndAtTheLimit checks that sums and products outside of the ledger do not overflow.
func TestSumsEndAtTheLimit(t *testing.T) {
	sum := Amounts{"gpu": 1 << 62}.Times(3)
	for range 8 {
		sum.Add(Amounts{"gpu": 1 << 61, "cpu": 1})
	}
	if sum["gpu"] != 9223372036854775807 || sum["cpu"] != 8 {
		t.Errorf("the sum is %v", sum)
	}
}
