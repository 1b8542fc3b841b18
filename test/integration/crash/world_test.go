package crash

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	nodeCount = 4
	nodeCPUs  = 12
	// neededCPUs is the number of CPUs that needed victims use on each node.
	neededCPUs = 9
)

// neededGroups are the groups that a preemption must evict. sparedGroups are groups that the
// preemptor may evict, but does not need to evict. Each group has a member on every node.
var (
	neededGroups = []string{"low-a", "low-b", "low-c", "low-d"}
	sparedGroups = []string{"spared"}
)

// world is a namespace with its own nodes, which are full. Each node runs one member of every
// group, with 2 CPUs, and single pods with 1 CPU and low or middle priority. A gang of high
// priority fits only if all needed pods are evicted.
type world struct {
	*cluster
	ns string
	// born maps the name of an initial pod to its UID.
	born map[string]types.UID
	// gone has the names of the initial pods that are evicted at the end of the case. over is true
	// once gone is known.
	gone []string
	over bool
}

func (c *cluster) newWorld(ctx context.Context, ns string) (*world, error) {
	w := &world{cluster: c, ns: ns}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if _, err := c.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	// The API server rejects pods in a new namespace until its default service account exists.
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, stage.Patience, true, func(ctx context.Context) (bool, error) {
		_, err := c.Kube.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the default service account: %w", err)
	}
	for i := range nodeCount {
		node := stage.NewNode(ns, strconv.Itoa(i), nodeCPUs)
		if w.queued {
			addShared(node, w.shared())
		}
		if err := c.Objects.Create(ctx, node); err != nil {
			return nil, err
		}
	}
	if w.queued {
		if err := w.createQueues(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// populate creates the initial groups and pods, which fill the nodes.
func (w *world) populate(ctx context.Context) error {
	for _, name := range slices.Concat(neededGroups, sparedGroups) {
		priority := "low"
		if slices.Contains(sparedGroups, name) {
			priority = "lowish"
		}
		if err := w.createGroup(ctx, name, priority, true); err != nil {
			return err
		}
		for i := range nodeCount {
			if err := w.createPod(ctx, fmt.Sprintf("%s-%d", name, i), name, priority, 2, w.node(i)); err != nil {
				return err
			}
		}
	}
	for i := range nodeCount {
		for name, priority := range map[string]string{"single": "low", "mid": "mid"} {
			if err := w.createPod(ctx, fmt.Sprintf("%s-%d", name, i), "", priority, 1, w.node(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// isNeeded reports whether a pod must be evicted for the preemptor.
func isNeeded(name string) bool {
	return strings.HasPrefix(name, "low-") || strings.HasPrefix(name, "single-")
}

// preempt creates the preemptor, a gang.
func (w *world) preempt(t *testing.T) {
	t.Helper()
	priority := "high"
	if w.queued {
		// Reclaim may evict work of another queue regardless of priority.
		priority = "low"
	}
	if err := w.createGroup(t.Context(), "urgent", priority, false); err != nil {
		t.Fatal(err)
	}
	for i := range nodeCount {
		if err := w.createPod(t.Context(), fmt.Sprintf("urgent-%d", i), "urgent", priority, neededCPUs, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// giveUp deletes the preemptor.
func (w *world) giveUp(t *testing.T) {
	t.Helper()
	w.at(t).RemoveGroup("urgent")
	err := w.Kube.CoreV1().Pods(w.ns).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)},
		metav1.ListOptions{LabelSelector: v1alpha1.LabelPodGroup + "=urgent"})
	if err != nil {
		t.Fatal(err)
	}
}

// at returns a stage for the world's namespace. Failures are reported to t.
func (w *world) at(t *testing.T) *stage.Stage {
	t.Helper()
	s := w.For(t)
	s.Namespace = w.ns
	return s
}

func (w *world) node(i int) string { return fmt.Sprintf("%s-%d", w.ns, i) }

func (w *world) createGroup(ctx context.Context, name, priority string, whole bool) error {
	pg := w.Groups.New(w.ns, stage.Group{Name: name, MinCount: nodeCount, Whole: whole, Priority: priority})
	if w.queued {
		w.enqueue(pg, name)
	}
	return w.Objects.Create(ctx, pg)
}

func (w *world) createPod(ctx context.Context, name, group, priority string, cpus int64, node string) error {
	pod := stage.NewPod(w.ns, name, priority, cpus)
	// The grace period must not be 0. A deletion without a grace period has two steps. If the
	// caller crashes between them, the pod stays forever.
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	if group != "" {
		w.Groups.Join(pod, group)
	}
	if w.queued {
		w.enqueue(pod, name)
		askShared(pod, w.shared(), cpus)
	}
	if node != "" {
		pod.Spec.NodeSelector[corev1.LabelHostname] = node
	}
	return w.Objects.Create(ctx, pod)
}

// waitReady waits until all initial pods run, and records their UIDs.
func (w *world) waitReady(t *testing.T) {
	t.Helper()
	w.at(t).Eventually("everything runs", func(ctx context.Context) string {
		pods, err := w.pods(ctx)
		if err != nil {
			return err.Error()
		}
		for name, pod := range pods {
			if pod.Status.Phase != corev1.PodRunning {
				return name + " is " + string(pod.Status.Phase)
			}
		}
		w.born = make(map[string]types.UID, len(pods))
		for name, pod := range pods {
			w.born[name] = pod.UID
		}
		return ""
	})
	if want := nodeCount * (len(neededGroups) + len(sparedGroups) + 2); len(w.born) != want {
		t.Fatalf("%d pods run, want %d", len(w.born), want)
	}
}

func (w *world) pods(ctx context.Context) (map[string]*corev1.Pod, error) {
	list, err := w.Kube.CoreV1().Pods(w.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := make(map[string]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// scene is the state of a world in the API at one time.
type scene struct {
	// staying has the initial pods that are not terminating. going has the initial pods that are
	// terminating or gone.
	staying, going []string
	// begun has the groups whose status.disruption lists the pods to evict. half has the groups
	// that have lost only some of their pods.
	begun, half []string
	// placed is the number of the preemptor's members with a node.
	placed int
	// targets has the groups whose condition DisruptionTarget is true.
	targets []string
}

func (w *world) look(ctx context.Context) (*scene, error) {
	pods, err := w.pods(ctx)
	if err != nil {
		return nil, err
	}
	var groups v1alpha1.PodGroupList
	if err := w.Objects.List(ctx, &groups, client.InNamespace(w.ns)); err != nil {
		return nil, err
	}
	s := &scene{}
	for name, uid := range w.born {
		if pod := pods[name]; pod != nil && pod.UID == uid && pod.DeletionTimestamp == nil {
			s.staying = append(s.staying, name)
		} else {
			s.going = append(s.going, name)
		}
	}
	slices.Sort(s.staying)
	slices.Sort(s.going)
	for _, pod := range pods {
		if strings.HasPrefix(pod.Name, "urgent-") && pod.Spec.NodeName != "" {
			s.placed++
		}
	}
	for i := range groups.Items {
		pg := &groups.Items[i]
		if pg.Status.Disruption != nil {
			s.begun = append(s.begun, pg.Name)
		}
		if meta.IsStatusConditionTrue(pg.Status.Conditions, v1alpha1.ConditionDisruptionTarget) {
			s.targets = append(s.targets, pg.Name)
		}
		if n := count(s.going, pg.Name+"-"); n > 0 && n < nodeCount {
			s.half = append(s.half, pg.Name)
		}
	}
	return s, nil
}

func (s *scene) String() string {
	return fmt.Sprintf("going %v, begun %v, half %v, %d members of the preemptor placed", s.going, s.begun, s.half, s.placed)
}

func count(names []string, prefix string) int {
	n := 0
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// needed returns the names of all pods that must be evicted for the preemptor.
func (w *world) needed() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(w.born) {
			if isNeeded(name) && !yield(name) {
				return
			}
		}
	})
}

// explain prints the state in the API and the scheduler's log at the end of a failed test.
func (w *world) explain(t *testing.T, scheduler *playground.Component) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if now, err := w.look(ctx); err == nil {
			t.Logf("in the end: %v", now)
		}
		if pods, err := w.pods(ctx); err == nil {
			for name, pod := range pods {
				if isNeeded(name) {
					t.Logf("pod %s %s: %s on %q, deleted %v, finalizers %v", name, pod.UID, pod.Status.Phase, pod.Spec.NodeName, pod.DeletionTimestamp, pod.Finalizers)
				}
			}
		}
		var groups v1alpha1.PodGroupList
		if err := w.Objects.List(ctx, &groups, client.InNamespace(w.ns)); err == nil {
			for i := range groups.Items {
				t.Logf("PodGroup %s: %+v", groups.Items[i].Name, groups.Items[i].Status)
			}
		}
		raw, err := os.ReadFile(scheduler.LogPath())
		if err != nil {
			t.Log(err)
		}
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, w.ns+"/") || strings.HasPrefix(line, "E") || strings.Contains(line, "inishing") {
				t.Log(strings.TrimSpace(line))
			}
		}
	})
}
