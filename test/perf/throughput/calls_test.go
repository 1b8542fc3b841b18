package throughput

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	apiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"k8s.io/kubernetes/test/integration/framework"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

// victimsOfOne is how many pods each member of a gang takes, as in gang-100 and gang-500.
const victimsOfOne = 4

// BenchmarkCalls is how long the API server takes for the calls alone of a gang that preempts: its members' creation, a
// nomination for each, a condition and a delete for each victim, the bindings. Nobody decides anything, nobody writes
// events, and one informer watches. No scheduler can be faster on the same machine that makes these calls.
func BenchmarkCalls(b *testing.B) {
	for _, members := range []int{100, 500} {
		for _, parallel := range []int{16, 32, 64} {
			b.Run(fmt.Sprintf("gang-%d/%d-at-a-time", members, parallel), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					took := makeCalls(b, members, parallel)
					b.ReportMetric(took.Seconds(), "s/gang")
					b.StartTimer()
				}
			})
		}
	}
}

// makeCalls has an API server of its own.
func makeCalls(b *testing.B, members, parallel int) time.Duration {
	tCtx := ktesting.Init(b)
	framework.StartEtcd(tCtx.Logger(), b, true)
	server, err := apiservertesting.StartTestServer(tCtx, apiservertesting.NewDefaultTestServerOptions(),
		[]string{"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority"}, framework.SharedEtcd())
	if err != nil {
		b.Fatal(err)
	}
	defer server.TearDownFn()
	config := restclient.CopyConfig(server.ClientConfig)
	// What scheduler_perf allows.
	config.QPS, config.Burst = 5000, 5000
	c := &caller{TContext: tCtx.WithCancel(), kube: kubernetes.NewForConfigOrDie(config), parallel: parallel}
	watching := informers.NewSharedInformerFactory(c.kube, 0)
	watching.Core().V1().Pods().Informer()
	watching.Start(c.Done())
	watching.WaitForCacheSync(c.Done())
	defer watching.Shutdown()
	defer c.Cancel("measured")

	victims := c.create("low", members*victimsOfOne, "900m")
	c.bind(victims, victimsOfOne)
	start := time.Now()
	gang := c.create("member", members, "3500m")
	c.each(len(gang), func(i int) error {
		return c.patch(gang[i], map[string]any{"nominatedNodeName": node(i)})
	})
	c.each(len(victims), func(i int) error {
		if err := c.patch(victims[i], map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
			Message: "preempted by a gang", LastTransitionTime: metav1.Now(),
		}}}); err != nil {
			return err
		}
		return c.kube.CoreV1().Pods(metav1.NamespaceDefault).Delete(c, victims[i].Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(victims[i].UID)),
		})
	})
	c.bind(gang, 1)
	return time.Since(start)
}

// caller makes calls, several at a time.
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

// bind binds pods, so many to a node.
func (c *caller) bind(pods []*corev1.Pod, toNode int) {
	c.each(len(pods), func(i int) error {
		return c.kube.CoreV1().Pods(metav1.NamespaceDefault).Bind(c, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pods[i].Name, UID: pods[i].UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node(i / toNode)},
		}, metav1.CreateOptions{})
	})
}

func (c *caller) patch(pod *corev1.Pod, status map[string]any) error {
	return podstatus.Patch(c, c.kube, pod.Namespace, pod.Name, pod.UID, status)
}

func node(i int) string { return fmt.Sprint("node-", i) }
