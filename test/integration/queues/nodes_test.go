package queues

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const small = "small-0"

// unlike starts a playground with three nodes: one with 8 GPUs, one with 4 GPUs, and one without
// GPUs.
func unlike(t *testing.T) *cluster {
	t.Helper()
	var options playground.Options
	for prefix, gpus := range map[string]int64{"large": 8, "small": 4, "plain": 0} {
		group := nodesOf(1).NodeGroups[0]
		group.Prefix = prefix
		group.Resources[gpu] = *resource.NewQuantity(gpus, resource.DecimalSI)
		options.NodeGroups = append(options.NodeGroups, group)
	}
	// Raise the time after which the controller manager marks nodes as lost. With the default of
	// less than a minute, a delay of the simulated kubelets would mark all nodes.
	options.ExtraArgs = map[string][]string{playground.ControllerManager: {"--node-monitor-grace-period=5m"}}
	return clusterOn(t, stage.New(t, options))
}

// lost maps a description to a function that makes a node unusable for new pods. Running pods stay
// on the node. The function returns another function, which makes the node usable again.
var lost = map[string]func(c *cluster, node string) (back func()){
	"cordoned": func(c *cluster, node string) func() {
		c.patchNode(node, `{"spec":{"unschedulable":true}}`)
		return func() { c.patchNode(node, `{"spec":{"unschedulable":false}}`) }
	},
	"not ready": func(c *cluster, node string) func() {
		kubelets := c.Run.Component(playground.Kwok)
		signal := func(sig syscall.Signal) {
			if err := syscall.Kill(kubelets.PID(), sig); err != nil {
				c.Error(err)
			}
		}
		signal(syscall.SIGSTOP)
		c.Cleanup(func() { signal(syscall.SIGCONT) })
		c.patchNode(node, `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady"}]}}`, "status")
		c.Eventually("the node is tainted", func(ctx context.Context) string {
			got, err := c.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if len(got.Spec.Taints) == 0 {
				return "it is not"
			}
			return ""
		})
		return func() { signal(syscall.SIGCONT) }
	},
}

func (c *cluster) patchNode(name, patch string, subresources ...string) {
	c.Helper()
	if _, err := c.Kube.CoreV1().Nodes().Patch(c.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
		c.Fatal(err)
	}
}

// seenLost waits until the scheduler places no more pods on a node. The scheduler receives changes
// of nodes after a moment.
func (c *cluster) seenLost(node string) {
	c.Helper()
	made := 0
	c.Eventually("the scheduler knows that "+node+" is lost", func(context.Context) string {
		name := fmt.Sprintf("probe-%d", made)
		made++
		c.pod(name, 0, "", nil, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} })
		refused := false
		c.Eventually(name+" has been tried", func(ctx context.Context) string {
			pod := c.Find(ctx, name)
			for _, cond := range pod.Status.Conditions {
				if cond.Type == corev1.PodScheduled {
					refused = cond.Status == corev1.ConditionFalse
					return ""
				}
			}
			return "it has not"
		})
		c.remove(name)
		if !refused {
			return "it has placed " + name
		}
		return ""
	})
}

// entitled waits until the status of a Queue has the fair share.
func (c *cluster) entitled(name, fairShare string) {
	c.Helper()
	c.Eventually("the fair share of "+name, func(ctx context.Context) string {
		q := c.getQueue(ctx, name)
		if q == nil {
			return "it is not there"
		}
		if share := q.Status.FairShare[gpu]; share.String() != fairShare {
			return "it is " + share.String() + ", want " + fairShare
		}
		return ""
	})
}

// on returns the names of the pods on a node.
func (c *cluster) on(node string) []string {
	c.Helper()
	var out []string
	for _, pod := range c.Pods(c.Context(), "") {
		if pod.Spec.NodeName == node {
			out = append(out, pod.Name)
		}
	}
	return out
}

// TestNodesThatDiffer tests nodes of different sizes that become unusable, become usable again, or
// are deleted. It checks the fair shares, and that preemptors search for room only on usable nodes.
func TestNodesThatDiffer(t *testing.T) {
	t.Parallel()
	c := unlike(t)
	c.classes()
	halves := func(c *cluster, each string) {
		c.Helper()
		c.has("left", each, each)
		c.has("right", each, each)
	}
	share := func(c *cluster) {
		c.queue("left")
		c.queue("right")
		c.pods("left", "left", 20, 1, "")
		c.Runs("left-", 12)
		c.pods("right", "right", 20, 1, "")
		halves(c, "6")
	}
	for name, lose := range lost {
		c.scene("shares where one is "+name, func(c *cluster) {
			share(c)
			back := lose(c, small)
			c.seenLost(small)
			// While pods run on the unusable node, its GPUs still count for the fair shares.
			began := time.Now()
			c.nobodyGoes(began)
			halves(c, "6")
			c.remove(c.on(small)...)
			c.entitled("left", "4")
			c.entitled("right", "4")
			back()
			halves(c, "6")
		})
		c.scene("preemptors where one is "+name, func(c *cluster) {
			c.pod("on-large", 8, "low", nil)
			c.Runs("on-large", 1)
			c.pod("on-small", 4, "", nil)
			c.Runs("on-small", 1)
			if got := c.on(small); len(got) != 1 {
				c.Fatalf("%v run on the small node, want on-small", got)
			}
			back := lose(c, small)
			c.seenLost(small)
			// The pod on the small node is the least important victim. But its node is unusable, so
			// its eviction frees no room. It must not be evicted.
			c.pod("urgent", 4, "high", nil)
			c.goes("on-large")
			c.Never("the one on the small node goes", func(ctx context.Context) string {
				if pod := c.Find(ctx, "on-small"); pod == nil || pod.DeletionTimestamp != nil {
					return "it does"
				}
				return ""
			})
			back()
			c.Runs("urgent", 1)
			c.Runs("on-small", 1)
		})
	}
	c.scene("shares where one is deleted", func(c *cluster) {
		share(c)
		if err := c.Kube.CoreV1().Nodes().Delete(c.Context(), small, metav1.DeleteOptions{}); err != nil {
			c.Fatal(err)
		}
		c.remove(c.on(small)...)
		halves(c, "4")
		c.Eventually("no pod is on it", func(context.Context) string {
			if got := c.on(small); len(got) > 0 {
				return fmt.Sprintf("%v are", got)
			}
			return ""
		})
	})
}
