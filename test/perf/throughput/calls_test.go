package throughput

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	apiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"k8s.io/kubernetes/test/integration/framework"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

// callsAlone is a side without a scheduler. It makes only the API calls that the workload needs.
const callsAlone = "calls"

// atATime is the number of concurrent API calls of the side callsAlone.
const atATime = 32

// load describes a workload: a number of preemptors, and the number of victims for each preemptor.
type load struct {
	preemptors, victims int
	// cpu is the CPU request of each preemptor.
	cpu string
}

// loadOf returns the load of a workload at a size, as in performance-config.yaml. It returns false
// if the API calls of the workload are not measured.
func loadOf(row, size string) (load, bool) {
	switch row {
	case "gang-100":
		return load{100, 4, "3500m"}, true
	case "gang-200":
		return load{200, 4, "3500m"}, true
	case "gang-500":
		return load{500, 4, "3500m"}, true
	case "preemption":
		return load{map[string]int{"small": 20, "medium": 500, "full": 5000}[size], 3, "3"}, true
	}
	return load{}, false
}

// BenchmarkCalls measures the API calls that preemptions need:
//
//   - the creation of the preemptors
//   - a nomination for each preemptor
//   - a condition and a delete for each victim
//   - the bindings
//
// It decides nothing and writes no events, and only one informer watches. So it is a lower bound
// for the time of a scheduler that makes these calls on the same machine.
func BenchmarkCalls(b *testing.B) {
	for _, row := range []string{"gang-100", "gang-200", "gang-500", "preemption"} {
		for _, parallel := range []int{16, atATime, 64} {
			b.Run(fmt.Sprintf("%s/%d-at-a-time", row, parallel), func(b *testing.B) {
				calls, _ := loadOf(row, "full")
				for b.Loop() {
					b.StopTimer()
					w := calls.measure(b, row, parallel)
					b.ReportMetric(w.Data["Total"], "s/workload")
					b.StartTimer()
				}
			})
		}
	}
}

// measure starts an API server and measures the API calls of the load.
func (l load) measure(b *testing.B, name string, parallel int) perf.DataItem {
	tCtx := ktesting.Init(b)
	framework.StartEtcd(tCtx.Logger(), b, true)
	server, err := apiservertesting.StartTestServer(tCtx, apiservertesting.NewDefaultTestServerOptions(),
		[]string{"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority"}, framework.SharedEtcd())
	if err != nil {
		b.Fatal(err)
	}
	defer server.TearDownFn()
	config := restclient.CopyConfig(server.ClientConfig)
	// scheduler_perf uses the same limits.
	config.QPS, config.Burst = 5000, 5000
	c := &caller{TContext: tCtx.WithCancel(), kube: kubernetes.NewForConfigOrDie(config), parallel: parallel}
	watching := informers.NewSharedInformerFactory(c.kube, 0)
	w := &stopwatch{
		name: name, wanted: l.preemptors, created: make(map[types.UID]time.Time), bound: make(map[types.UID]time.Time),
	}
	if _, err := watching.Core().V1().Pods().Informer().AddEventHandler(w.handler(func(pod *corev1.Pod) bool {
		return strings.HasPrefix(pod.Name, preemptorName)
	})); err != nil {
		b.Fatal(err)
	}
	watching.Start(c.Done())
	watching.WaitForCacheSync(c.Done())
	defer watching.Shutdown()
	defer c.Cancel("measured")
	c.play(l)
	if err := wait.PollUntilContextTimeout(c, 10*time.Millisecond, time.Minute, true, w.isDone); err != nil {
		b.Fatalf("the last binding has not been seen: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.result()
}

const preemptorName = "preemptor"

// play makes the API calls of the load.
func (c *caller) play(l load) {
	victims := c.create("low", l.preemptors*l.victims, "900m")
	c.bind(victims, l.victims)
	preemptors := c.create(preemptorName, l.preemptors, l.cpu)
	c.each(len(preemptors), func(i int) error {
		return c.patch(preemptors[i], map[string]any{"nominatedNodeName": node(i)})
	})
	c.each(len(victims), func(i int) error {
		if err := c.patch(victims[i], map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
			Message: "preempted by another pod", LastTransitionTime: metav1.Now(),
		}}}); err != nil {
			return err
		}
		return c.kube.CoreV1().Pods(metav1.NamespaceDefault).Delete(c, victims[i].Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(victims[i].UID)),
		})
	})
	c.bind(preemptors, 1)
}

// caller makes concurrent API calls.
type caller struct {
	ktesting.TContext
	kube     kubernetes.Interface
	parallel int
}

func (c *caller) each(n int, do func(i int) error) {
	var g errgroup.Group
	g.SetLimit(c.parallel)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	if err := g.Wait(); err != nil {
		c.Fatal(err)
	}
}

func (c *caller) create(name string, n int, cpu string) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	c.each(n, func(i int) (err error) {
		pods[i], err = c.kube.CoreV1().Pods(metav1.NamespaceDefault).Create(c, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, "-", i)},
			Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: ptr.To[int64](0),
				Containers: []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10.1", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("500Mi")},
				}}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	return pods
}

// bind binds pods to nodes, with toNode pods on each node.
func (c *caller) bind(pods []*corev1.Pod, toNode int) {
	c.each(len(pods), func(i int) error {
		return c.kube.CoreV1().Pods(metav1.NamespaceDefault).Bind(c, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pods[i].Name, UID: pods[i].UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node(i / toNode)},
		}, metav1.CreateOptions{})
	})
}

func (c *caller) patch(pod *corev1.Pod, status map[string]any) error {
	return podstatus.Patch(c, c.kube, pod.Namespace, pod.Name, pod.UID, status, metav1.PatchOptions{})
}

func node(i int) string { return fmt.Sprint("node-", i) }
