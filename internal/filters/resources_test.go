package filters

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
)

const gpu corev1.ResourceName = "example.com/gpu"

// gpuClass returns a DeviceClass that maps to the GPU resource.
func gpuClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: ptr.To(string(gpu))},
	}
}

// gpuNodes returns nodes with two GPUs each, from a device plugin.
func gpuNodes(count int) []runtime.Object {
	out := make([]runtime.Object, count)
	for i := range out {
		n := node(fmt.Sprintf("node-%d", i), "16")
		n.Status.Allocatable[gpu] = quantity("2")
		out[i] = n
	}
	return out
}

// asking adds a request for two GPUs to each pod.
func asking(pods ...*corev1.Pod) []*corev1.Pod {
	for _, p := range pods {
		p.Spec.Containers[0].Resources.Requests[gpu] = quantity("2")
	}
	return pods
}

// fullGPUs returns two pods that use all GPUs of node-0 and node-1, with the given priorities.
func fullGPUs(first, second int32) []*corev1.Pod {
	return asking(on(pod("r-0", "", "1", first), "node-0"), on(pod("r-1", "", "1", second), "node-1"))
}

// mapping waits until the scheduler's cache shows whether a DeviceClass maps to the GPU resource.
func (w *world) mapping(isThere bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return Delegates(w.profile, gpu) == isThere, nil
	})
	if err != nil {
		w.t.Fatalf("A DeviceClass is known: %t, want %t", !isThere, isThere)
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	const implicit = corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + "gpu")
	manages := []config.Extender{{
		URLPrefix: "http://127.0.0.1", ManagedResources: []config.ExtenderManagedResource{{Name: string(gpu), IgnoredByScheduler: true}},
	}}
	cases := map[string]struct {
		extenders                  []config.Extender
		objects                    []runtime.Object
		name                       corev1.ResourceName
		wantIgnored, wantDelegated bool
	}{
		"nothing but nodes":            {name: gpu},
		"a class":                      {objects: []runtime.Object{gpuClass()}, name: gpu, wantDelegated: true},
		"a class by its own name":      {objects: []runtime.Object{gpuClass()}, name: implicit, wantDelegated: true},
		"a class for something else":   {objects: []runtime.Object{gpuClass()}, name: "example.com/fpga"},
		"an extender that manages it":  {extenders: manages, name: gpu, wantIgnored: true},
		"an extender beside the class": {extenders: manages, objects: []runtime.Object{gpuClass()}, name: gpu, wantIgnored: true, wantDelegated: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.extenders, append(gpuNodes(1), c.objects...)...)
			for range 2 {
				ignored, delegated := w.resources.Ignores(c.name), w.resources.Delegates(c.name)
				if ignored != c.wantIgnored || delegated != c.wantDelegated {
					t.Errorf("Ignored is %t and delegated %t, want %t and %t", ignored, delegated, c.wantIgnored, c.wantDelegated)
				}
			}
		})
	}
}

// TestDevicesOfBothKinds has a DeviceClass that maps to the GPU resource. GPUs of device plugins
// must count in the same way as if there were no DeviceClass. A node without a device plugin must
// admit as many pods as it has devices.
func TestDevicesOfBothKinds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		running []*corev1.Pod
		// devices is the number of devices of node-2, which has no device plugin.
		devices     int
		members     []*corev1.Pod
		want        core.Outcome
		wantNodes   []string
		wantVictims []string
	}{
		"a pod goes where GPUs are free": {
			running: fullGPUs(0, 0)[:1], members: asking(pod("p", "", "1", 10)), want: core.Fits, wantNodes: []string{"node-1"},
		},
		"a pod preempts where none are free": {
			running: fullGPUs(5, 0), members: asking(pod("p", "", "1", 10)),
			want: core.Preempts, wantNodes: []string{"node-1"}, wantVictims: []string{"r-1"},
		},
		"a pod that may take nothing": {
			running: fullGPUs(20, 20), members: asking(pod("p", "", "1", 10)), want: core.Infeasible,
		},
		"a gang is not planned where none are free": {
			running: fullGPUs(0, 0)[:1], members: asking(members("g", 2, "1", 10)...),
			want: core.Preempts, wantNodes: []string{"node-0", "node-1"}, wantVictims: []string{"r-0"},
		},
		"a gang that may take nothing": {
			running: fullGPUs(20, 0)[:1], members: asking(members("g", 2, "1", 10)...), want: core.Infeasible,
		},
		"a pod goes where devices are": {
			running: fullGPUs(0, 0), devices: 2, members: asking(pod("p", "", "1", 10)), want: core.Fits, wantNodes: []string{"node-2"},
		},
		"a pod preempts where devices are too few": {
			running: fullGPUs(5, 0), devices: 1, members: asking(pod("p", "", "1", 10)),
			want: core.Preempts, wantNodes: []string{"node-1"}, wantVictims: []string{"r-1"},
		},
		"a gang goes to both": {
			running: fullGPUs(0, 0)[:1], devices: 2, members: asking(members("g", 2, "1", 10)...),
			want: core.Fits, wantNodes: []string{"node-1", "node-2"},
		},
		"a gang preempts beside devices": {
			running: fullGPUs(5, 0), devices: 2, members: asking(members("g", 2, "1", 10)...),
			want: core.Preempts, wantNodes: []string{"node-1", "node-2"}, wantVictims: []string{"r-1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append(gpuNodes(2), node("node-2", "16"), gpuClass())
			if c.devices > 0 {
				objects = append(objects, devices("node-2", c.devices))
			}
			d := newWorld(t, nil, with(objects, c.running...)...).decide(c.members...)
			if d.Outcome != c.want || !slices.Equal(placedOn(d), c.wantNodes) || !slices.Equal(victims(d), c.wantVictims) {
				t.Errorf("%s on %v, taking %v: %s; want %s on %v, taking %v",
					d.Outcome, placedOn(d), victims(d), d.Message, c.want, c.wantNodes, c.wantVictims)
			}
		})
	}
}

// TestClassThatComes checks that a DeviceClass has an effect only while it exists. Earlier results
// must not be cached.
func TestClassThatComes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		plugins int
		running []*corev1.Pod
		want    core.Outcome
	}{
		"beside device plugins":        {plugins: 2, running: fullGPUs(0, 0), want: core.Preempts},
		"where there are no such ones": {want: core.Infeasible},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append(gpuNodes(c.plugins), node("node-2", "16"), devices("node-2", 2))
			w := newWorld(t, nil, with(objects, c.running...)...)
			decide := func(when string, want core.Outcome) {
				t.Helper()
				d := w.decide(asking(pod("p", "", "1", 10))...)
				if d.Outcome != want || w.resources.Ignores(gpu) {
					t.Errorf("%s: %s on %v: %s; want %s", when, d.Outcome, placedOn(d), d.Message, want)
				}
			}
			decide("without a class", c.want)
			classes := w.client.ResourceV1().DeviceClasses()
			if _, err := classes.Create(t.Context(), gpuClass(), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.mapping(true)
			decide("with the class", core.Fits)
			if err := classes.Delete(t.Context(), "gpu", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.mapping(false)
			decide("once it has gone", c.want)
		})
	}
}
