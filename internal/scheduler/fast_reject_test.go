package scheduler

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// refusedBy returns the names of the plugins that rejected a pod.
func (r *rig) refusedBy(name string) []string {
	r.t.Helper()
	info, ok := r.upstream.SchedulingQueue.GetPod(name, "ns", nil)
	if !ok {
		r.t.Fatalf("The queue has no pod %s", name)
	}
	return sets.List(info.UnschedulablePlugins)
}

// says returns the message of a pod's PodScheduled condition.
func (r *rig) says(name string) string {
	r.t.Helper()
	var message string
	r.eventually(name+" is told", func() bool {
		pod, err := r.client.CoreV1().Pods("ns").Get(r.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				message = c.Message
			}
		}
		return message != ""
	})
	return message
}

// TestFastReject checks a pod with the same requests as an earlier pod that found no room. The
// filters must not run for the pod, but its victims and messages must be the same as if the filters
// had run.
func TestFastReject(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(3, "2")...)
	for _, n := range []string{"0", "1", "2"} {
		r.create(on(pod("v-"+n, "", "2", 0), "node-"+n))
	}
	r.create(pod("first", "", "2", 10))
	r.cycle()
	r.create(pod("second", "", "2", 10))
	r.cycle()
	if first, second := r.refusedBy("first"), r.refusedBy("second"); !slices.Equal(first, []string{"NodeResourcesFit"}) || !slices.Equal(second, []string{Name}) {
		t.Errorf("The first is refused by %v, the second by %v", first, second)
	}
	if got, want := r.taken(1), []string{"v-1"}; !slices.Equal(got, want) {
		t.Errorf("%v is taken for the second, want %v", got, want)
	}
	// The two messages may differ only in the names of nodes and victims.
	told := func(name string) string {
		return strings.NewReplacer("node-0", "node", "node-1", "node", "v-0", "v", "v-1", "v").Replace(r.says(name))
	}
	if first, second := told("first"), told("second"); first != second || !strings.HasPrefix(first, "0/3 nodes are available: 3 Insufficient cpu.") {
		t.Errorf("The first is told %q, the second %q", first, second)
	}

	// A pod that cannot preempt is also rejected without the filters. It is retried after a node is
	// added.
	r.create(pod("low", "", "2", 0))
	r.cycle()
	if got := r.refusedBy("low"); !slices.Equal(got, []string{Name}) {
		t.Errorf("The low one is refused by %v", got)
	}
	if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node("more", "2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("low is tried again", func() bool { return slices.Contains(r.active(), "low") })
	r.cycle()
	r.waitBound("low")

	// A pod may fit although an earlier pod with the same requests found no room.
	r.remove(on(pod("v-2", "", "2", 0), "node-2"))
	r.create(pod("lucky", "", "2", 0))
	r.cycles()
	r.waitBound("lucky")
}

// TestFastRejectAgain checks when the filters run for a pod with a reservation: not while its
// victim still runs, but once the victim is gone.
func TestFastRejectAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nodes(3, "2")...)
	for _, n := range []string{"0", "1", "2"} {
		r.create(on(pod("v-"+n, "", "2", 0), "node-"+n))
	}
	r.create(pod("first", "", "2", 10))
	r.cycle()
	if got := r.refusedBy("first"); !slices.Equal(got, []string{"NodeResourcesFit"}) {
		t.Fatalf("It is refused by %v", got)
	}
	victims := r.taken(0)
	r.succeed(0)
	r.eventually("it is tried again", func() bool { return slices.Contains(r.active(), "first") })
	r.cycle()
	if got := r.refusedBy("first"); !slices.Equal(got, []string{Name}) {
		t.Errorf("The second time it is refused by %v", got)
	}
	if len(r.evictor.orders) > 1 {
		t.Errorf("%v is taken as well", r.taken(1))
	}
	r.remove(on(pod(victims[0], "", "2", 0), "node-0"))
	r.eventually("it is tried at last", func() bool { return slices.Contains(r.active(), "first") })
	r.cycle()
	r.waitBound("first")
}

// TestFastRejectNotTooMuch checks that a preemptor is placed as soon as its victim is gone, even
// while another pod on the node is terminating.
func TestFastRejectNotTooMuch(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]string{"a pod": "", "a gang": "p"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nodes(1, "4")...)
			slow, victim := on(pod("slow", "", "1", 0), "node-0"), on(pod("victim", "", "3", 0), "node-0")
			slow.DeletionTimestamp, slow.Finalizers = ptr.To(metav1.Now()), []string{"example.com/slow"}
			r.create(slow, victim)
			if group != "" {
				r.gangOf(group, 1, 10)
			}
			r.create(pod("p", group, "3", 10))
			r.cycle()
			if got, want := r.taken(0), []string{"victim"}; !slices.Equal(got, want) {
				t.Fatalf("%v is taken, want %v", got, want)
			}
			r.succeed(0)
			r.eventually("it is tried again", func() bool { return slices.Contains(r.active(), "p") })
			r.cycle()
			r.remove(victim)
			r.eventually("it is tried when its victim has gone", func() bool { return slices.Contains(r.active(), "p") })
			r.cycle()
			r.waitBound("p")
		})
	}
}

// TestFastRejectKnowsDeviceClasses checks a resource that no node offers. Once a DeviceClass maps
// the resource to devices, the filters must run.
func TestFastRejectKnowsDeviceClasses(t *testing.T) {
	t.Parallel()
	const gpu = "example.com/gpu"
	asking := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Containers[0].Resources.Requests[gpu] = resource.MustParse("1")
		return p
	}
	plugged := node("plugged", "4")
	plugged.Status.Allocatable[gpu] = resource.MustParse("1")
	r := newRig(t, plugged, node("bare", "4"))
	r.create(on(asking(pod("v", "", "1", 20)), "plugged"), asking(pod("first", "", "1", 10)))
	r.cycle()
	if got := r.refusedBy("first"); !slices.Equal(got, []string{"NodeResourcesFit"}) {
		t.Fatalf("The first is refused by %v", got)
	}
	rejected := func() bool {
		t.Helper()
		r.snapshot()
		status := r.plugin.fastReject(t.Context(), framework.NewCycleState(), asking(pod("second", "", "1", 10)))
		if !status.IsSuccess() && !status.IsRejected() {
			t.Fatal(status.AsError())
		}
		return status.IsRejected()
	}
	if !rejected() {
		t.Error("Without a DeviceClass it is left to the filters")
	}
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: ptr.To(gpu)},
	}
	if _, err := r.client.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the DeviceClass is known", func() bool { return r.plugin.resources.Delegates(gpu) })
	if rejected() {
		t.Error("With a DeviceClass it is rejected")
	}
}

func TestMisfits(t *testing.T) {
	var m unschedulable
	of := func(p *corev1.Pod) ask {
		pi, err := framework.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		return askOf(pi.CalculateResource().Resource)
	}
	with := func(name, amount string) *corev1.Pod {
		p := pod("p", "", "1", 0)
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(name)] = resource.MustParse(amount)
		return p
	}
	m.add(of(with("nvidia.com/gpu", "8")))
	for name, want := range map[string]bool{"8": true, "4": false} {
		if got := m.asks.Has(of(with("nvidia.com/gpu", name))); got != want {
			t.Errorf("%s GPUs are known: %t", name, got)
		}
	}
	if m.asks.Has(of(pod("p", "", "1", 0))) || m.asks.Has(of(with("example.com/gpu", "8"))) {
		t.Error("Another resource, or none, is the same")
	}
	for i := range 3 * mostMisfits {
		m.add(ask{milliCPU: int64(i)})
	}
	if len(m.asks) > mostMisfits {
		t.Errorf("%d are remembered", len(m.asks))
	}
}
