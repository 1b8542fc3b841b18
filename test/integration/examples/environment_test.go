package examples

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// env is the playground of docs/playground.md. Subtests use it one after the other, and each starts
// with an empty cluster.
type env struct {
	*stage.Stage
}

// start starts the playground of docs/playground.md.
func start(t *testing.T) *env {
	t.Helper()
	return &env{stage.New(t, playground.Options{NodeGroups: []playground.NodeGroup{documentedNodes(t)}})}
}

// scene runs a subtest on the empty playground, and removes its objects afterwards. The subtests
// cannot run in parallel, because they share a namespace and fill all nodes.
func (e *env) scene(name string, play func(*env)) {
	e.Helper()
	e.T.Run(name, func(t *testing.T) {
		out := &env{e.For(t)}
		t.Cleanup(out.clear)
		play(out)
	})
}

// documentedNodes returns the nodes in the command of docs/playground.md that starts the
// playground.
func documentedNodes(t *testing.T) playground.NodeGroup {
	t.Helper()
	_, rest, found := strings.Cut(page(t, "playground.md"), "\n$ bin/playground up ")
	line, _, _ := strings.Cut(rest, "\n")
	var group playground.NodeGroup
	flags := flag.NewFlagSet("playground up", flag.ContinueOnError)
	flags.IntVar(&group.Count, "nodes", 0, "")
	resources := flags.String("node-resources", "", "")
	flags.String("kubeconfig", "", "")
	if err := flags.Parse(strings.Fields(line)); err != nil || !found {
		t.Fatalf("docs/playground.md starts no playground, found %t: %v", found, err)
	}
	var err error
	if group.Resources, err = playground.ParseNodeResources(*resources); err != nil {
		t.Fatal(err)
	}
	return group
}

// page returns the text of a page in docs/.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// clear deletes all workloads, Queues and PriorityClasses, and waits until the pods are gone.
func (e *env) clear() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Context()), time.Minute)
	defer cancel()
	here := client.InNamespace(e.Namespace)
	for _, obj := range []client.Object{&batchv1.Job{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}} {
		if err := e.Objects.DeleteAllOf(ctx, obj, here, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			e.Error(err)
		}
	}
	if err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		// Delete the pods repeatedly. A controller that has not seen its object's deletion yet may
		// create more.
		now := &client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, ListOptions: client.ListOptions{Namespace: e.Namespace}}
		if err := e.Objects.DeleteAllOf(ctx, &corev1.Pod{}, now); err != nil {
			return false, err
		}
		var sets appsv1.ReplicaSetList
		err := e.Objects.List(ctx, &sets, here)
		return len(sets.Items) == 0 && len(e.AllPods(ctx)) == 0, err
	}); err != nil {
		e.Errorf("clear the playground: %v", err)
	}
	errs := []error{
		e.Objects.DeleteAllOf(ctx, &v1alpha1.PodGroup{}, here),
		e.Objects.DeleteAllOf(ctx, &v1alpha1.Queue{}),
	}
	var classes schedulingv1.PriorityClassList
	errs = append(errs, e.Objects.List(ctx, &classes))
	for i := range classes.Items {
		if c := &classes.Items[i]; !strings.HasPrefix(c.Name, "system-") {
			errs = append(errs, e.Objects.Delete(ctx, c))
		}
	}
	for _, err := range errs {
		if err != nil {
			e.Error(err)
		}
	}
}

// pod creates a pod that requests a number of GPUs.
func (e *env) pod(name, class string, gpus int) {
	e.Helper()
	e.ApplyText(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulerName: reprieve-scheduler
  priorityClassName: %s
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: registry.example/main:1, resources: {limits: {%s: "%d"}}}
`, name, class, gpu, gpus))
}
