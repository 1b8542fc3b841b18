package queues

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// cores returns the resources of a node with a number of CPUs.
func cores(cpus string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("64Gi")}
}

// replicas creates a ReplicaSet in a queue. Each pod requests a number of CPUs. The argument more
// has additional lines for the spec of the pods.
func (c *cluster) replicas(name, queue string, count int, cpus string, more ...string) {
	c.Helper()
	c.ApplyText(fmt.Sprintf(`apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s, reprieve.dev/queue: %[2]s}
    spec:
      schedulerName: reprieve-scheduler
      terminationGracePeriodSeconds: 1
      %[5]s
      containers:
      - {name: main, image: example.com/work, resources: {requests: {cpu: "%[4]s"}}}
`, name, queue, count, cpus, strings.Join(more, "\n      ")))
}

// running returns the number of a ReplicaSet's pods that have a node and are not terminating.
func (c *cluster) running(ctx context.Context, name string) (n int) {
	for _, pod := range c.Pods(ctx, name+"-") {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// shared waits until each ReplicaSet has "want" pods with a node, and checks for some time that
// these numbers do not change.
func (c *cluster) shared(want int, names ...string) {
	c.Helper()
	differs := func(ctx context.Context) string {
		for _, name := range names {
			if n := c.running(ctx, name); n != want {
				return fmt.Sprintf("%s has %d pods on nodes, want %d", name, n, want)
			}
		}
		return ""
	}
	c.Eventually("the queues have the same", differs)
	c.NeverFor(3*time.Second, 100*time.Millisecond, "it stays so", differs)
}

// TestNodesThatMostWorkCannotUse tests fair shares if a node cannot run most of the work. Three
// queues with four pods each compete for the six CPUs of the small nodes. The eight CPUs of the
// large node must not increase their fair shares. At first, only one of the queues has pods.
func TestNodesThatMostWorkCannotUse(t *testing.T) {
	t.Parallel()
	kept := []corev1.Taint{{Key: "kept", Value: "large", Effect: corev1.TaintEffectNoSchedule}}
	const (
		small    = `nodeSelector: {size: small}`
		tolerant = `tolerations: [{key: kept, operator: Exists}]`
	)
	type scene struct {
		name string
		// terms has additional lines for the spec of the queues' pods. large creates other work,
		// which waits for the large node.
		terms string
		large func(c *cluster)
	}
	large := func(queue, cpus, terms string) func(c *cluster) {
		return func(c *cluster) { c.replicas("large", queue, 1, cpus, terms) }
	}
	for name, tc := range map[string]struct {
		taints []corev1.Taint
		scenes []scene
	}{
		"tainted": {taints: kept, scenes: []scene{
			{"a large pod tolerates the taint", "nodeSelector: {}", large("d", "8", tolerant)},
			{"a large pod of one of them tolerates the taint", "nodeSelector: {}", large("a", "8", tolerant)},
		}},
		"not tainted": {scenes: []scene{
			{"the nodes are selected", small, large("d", "8", "nodeSelector: {size: large}")},
			{"idle nodes", small, func(*cluster) {}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := clusterOn(t, stage.New(t, playground.Options{NodeGroups: []playground.NodeGroup{
				{Prefix: "small", Count: 3, Resources: cores("2"), Labels: map[string]string{"size": "small"}},
				{Prefix: "large", Count: 1, Resources: cores("8"), Labels: map[string]string{"size": "large"}, Taints: tc.taints},
			}}))
			for _, scene := range tc.scenes {
				all.scene(scene.name, func(c *cluster) { c.sharesSix(scene.terms, scene.large) })
			}
		})
	}
}

// sharesSix checks that three queues share the six CPUs of the small nodes equally, while other
// work waits for the large node.
func (c *cluster) sharesSix(terms string, large func(c *cluster)) {
	c.Helper()
	for _, name := range []string{"a", "b", "c", "d"} {
		c.queue(name)
	}
	c.known("a", "b", "c", "d")
	// The system pod uses one CPU of the large node. So work that requests the whole node must
	// wait.
	c.pod("system", 0, "", nil, asking(corev1.ResourceCPU, 1), func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"size": "large"}
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	c.Runs("system", 1)
	large(c)
	c.replicas("a", "a", 4, "1", terms)
	c.shared(4, "a")
	c.replicas("b", "b", 4, "1", terms)
	c.replicas("c", "c", 4, "1", terms)
	c.within(soon, func() { c.shared(2, "a", "b", "c") })
}

// asking returns a function that makes a pod request an amount of a resource.
func asking(device corev1.ResourceName, pieces int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		q := corev1.ResourceList{device: *resource.NewQuantity(pieces, resource.DecimalSI)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: q, Limits: q}
	}
}
