package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/deploy"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestDocumentedConfiguration runs the scheduler with the first configuration in
// docs/configuration.md. Each of its profiles must place pods. The examples of gangs in README.md
// and docs/gangs.md must run without changes.
func TestDocumentedConfiguration(t *testing.T) {
	t.Parallel()
	config := firstYAML(t, "docs", "configuration.md")
	resources, err := playground.ParseNodeResources("cpu=64,memory=512Gi,nvidia.com/gpu=8")
	if err != nil {
		t.Fatal(err)
	}
	p := stage.Start(t, playground.Options{
		NodeGroups: []playground.NodeGroup{{Count: 12, Resources: resources}},
		CRDs:       deploy.API,
		Scheduler:  playground.SchedulerOptions{Path: playground.NoScheduler},
	})
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	// The configuration places the leader election Lease in the namespace of deploy/.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "reprieve-system"}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = p.StartScheduler(t.Context(), "documented", playground.SchedulerOptions{
		Path:   filepath.Join(playgroundtest.BinDir(t, schedulerBinary), schedulerBinary),
		Config: writeFile(t, config),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range []string{"reprieve-scheduler", "reprieve-batch"} {
		waitScheduled(t, client, profile)
	}
	for name, path := range map[string][]string{"train": {"README.md"}, "training": {"docs", "gangs.md"}} {
		if err := p.Apply(t.Context(), fstest.MapFS{"gang.yaml": {Data: []byte(firstYAML(t, path...))}}); err != nil {
			t.Fatal(err)
		}
		err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, startLimit, true, func(ctx context.Context) (bool, error) {
			job, err := client.BatchV1().Jobs(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
			return err == nil && ptr.Deref(job.Status.Ready, 0) == 6, err
		})
		if err != nil {
			t.Errorf("the gang of 6 in %v does not run: %v", path, err)
		}
	}
}

// firstYAML returns the first YAML code block of a page.
func firstYAML(t *testing.T, path ...string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(append([]string{playgroundtest.ModuleRoot(t)}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("%v has no YAML", path)
	}
	return block
}

// waitScheduled creates a pod with a scheduler name, and waits until the pod has a node.
func waitScheduled(t *testing.T, client kubernetes.Interface, scheduler string) {
	t.Helper()
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "for-" + scheduler},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler,
			Containers:    []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
		},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, startLimit, true, func(ctx context.Context) (bool, error) {
		current, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && current.Spec.NodeName != "", err
	})
	if err != nil {
		t.Errorf("the pod of %s has no node: %v", scheduler, err)
	}
}
