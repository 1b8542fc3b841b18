package scheduling

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	crds "github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// The profiles of the scheduler under test.
const (
	mainProfile   = "reprieve-scheduler"
	secondProfile = "second-scheduler"
	// countedProfile serves one test only, which counts its scheduling attempts.
	countedProfile = "counted-scheduler"
)

const (
	// ownerLabel ties nodes to the test that they belong to.
	ownerLabel = "test.reprieve.dev/owner"
	// finalizer keeps what is being deleted, until a test lets it go.
	finalizer = "test.reprieve.dev/hold"
)

// The PriorityClasses that all tests share.
var priorityClasses = map[string]struct {
	value  int32
	policy corev1.PreemptionPolicy
}{
	"low":       {100, corev1.PreemptLowerPriority},
	"mid":       {500, corev1.PreemptLowerPriority},
	"high":      {1000, corev1.PreemptLowerPriority},
	"patient":   {1000, corev1.PreemptNever},
	"higher":    {2000, corev1.PreemptLowerPriority},
	"unrelated": {7, corev1.PreemptLowerPriority},
}

// shared is the playground of this package, started by the first test that asks for it.
var shared struct {
	once  sync.Once
	run   *playground.Playground
	files string
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.run != nil {
		if err := shared.run.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the playground:", err)
			code = max(code, 1)
		}
	}
	if shared.files != "" {
		if err := os.RemoveAll(shared.files); err != nil {
			fmt.Fprintln(os.Stderr, "remove the configuration:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// cluster returns the shared playground.
func cluster(t *testing.T) *playground.Playground {
	t.Helper()
	shared.once.Do(func() {
		bin := playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
		shared.files, shared.err = os.MkdirTemp("", "reprieve-scheduling-") //nolint:usetesting // It outlives the test that is first.
		if shared.err != nil {
			return
		}
		config := filepath.Join(shared.files, "scheduler.yaml")
		if shared.err = os.WriteFile(config, []byte(schedulerConfig()), 0o600); shared.err != nil {
			return
		}
		// It outlives the test that happens to be first.
		shared.run, shared.err = playground.Start(context.WithoutCancel(t.Context()), playground.Options{
			BinDir:    bin,
			CRDs:      crds.FS,
			Scheduler: playground.SchedulerOptions{Config: config, Args: schedulerArgs()},
			// The tests of gangs and preemption run on both APIs, which does not change what the other one does.
			NativeWorkloadAPI: true,
		})
		if shared.err == nil {
			shared.err = createPriorityClasses(t.Context(), shared.run)
		}
	})
	if shared.err != nil {
		t.Fatalf("start the playground: %v", shared.err)
	}
	return shared.run
}

// schedulerArgs are further arguments for the scheduler, for a closer look at a failure.
func schedulerArgs() []string {
	if v := os.Getenv("REPRIEVE_TEST_VERBOSITY"); v != "" {
		return []string{"-v=" + v}
	}
	return nil
}

// schedulerConfig is the default configuration with further profiles, and no leader election.
func schedulerConfig() string {
	var b strings.Builder
	b.WriteString(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
`)
	for _, name := range []string{mainProfile, secondProfile, countedProfile} {
		fmt.Fprintf(&b, `- schedulerName: %s
  plugins:
    multiPoint:
      enabled: [{name: Reprieve}]
      disabled: [{name: DefaultPreemption}]
    queueSort:
      enabled: [{name: ReprievePrioritySort}]
      disabled: [{name: PrioritySort}]
    preFilter:
      enabled: [{name: Reprieve}]
`, name)
	}
	return b.String()
}

func createPriorityClasses(ctx context.Context, p *playground.Playground) error {
	clients, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		return err
	}
	for name, class := range priorityClasses {
		_, err := clients.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta:       metav1.ObjectMeta{Name: name},
			Value:            class.value,
			PreemptionPolicy: ptr.To(class.policy),
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create PriorityClass %s: %w", name, err)
		}
	}
	return nil
}

// env is what one test works with: a namespace and nodes of its own.
type env struct {
	t    *testing.T
	run  *playground.Playground
	kube kubernetes.Interface
	// objects serves PodGroups and Workloads.
	objects client.Client
	// api is the one whose PodGroups the test is about.
	api groupAPI
	ns  string
}

// newEnv makes a namespace, for a test of one API's PodGroups.
func newEnv(t *testing.T, api groupAPI) *env {
	t.Helper()
	p := cluster(t)
	kube, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects, err := client.New(p.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	created, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	e := &env{t: t, run: p, kube: kube, objects: objects, api: api, ns: created.Name}
	t.Cleanup(e.clear)
	// Pods are admitted only where the default service account exists.
	e.eventually("the default service account exists", func(ctx context.Context) string {
		if _, err := kube.CoreV1().ServiceAccounts(e.ns).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return e
}

// with is the same environment, for PodGroups of another API.
func (e *env) with(api groupAPI) *env {
	other := *e
	other.api = api
	return &other
}

// clear removes what would be in the way of other tests. The namespace goes in its own time.
func (e *env) clear() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), patience)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := e.kube.CoreV1().Pods(e.ns).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		e.t.Errorf("delete the pods: %v", err)
	}
	mine := metav1.ListOptions{LabelSelector: ownerLabel + "=" + e.ns}
	if err := e.kube.CoreV1().Nodes().DeleteCollection(ctx, now, mine); err != nil {
		e.t.Errorf("delete the nodes: %v", err)
	}
	if err := e.kube.CoreV1().Namespaces().Delete(ctx, e.ns, metav1.DeleteOptions{}); err != nil {
		e.t.Errorf("delete the namespace: %v", err)
	}
}

// nodeName is the name of the node that the test knows by a short one.
func (e *env) nodeName(short string) string { return e.ns + "-" + short }

// addNodes creates nodes with that many CPUs, and waits until pods can be placed on them.
func (e *env) addNodes(cpus int64, shorts ...string) {
	e.t.Helper()
	for _, short := range shorts {
		room := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourcePods:   resource.MustParse("20"),
		}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:   e.nodeName(short),
				Labels: map[string]string{ownerLabel: e.ns, corev1.LabelHostname: e.nodeName(short)},
			},
			Status: corev1.NodeStatus{
				Capacity: room, Allocatable: room,
				// Simulated pods take their host's address from here.
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.64.0.1"}},
			},
		}
		if _, err := e.kube.CoreV1().Nodes().Create(e.t.Context(), node, metav1.CreateOptions{}); err != nil {
			e.t.Fatalf("create node %s: %v", short, err)
		}
	}
	e.eventually("the nodes are ready", func(ctx context.Context) string {
		for _, short := range shorts {
			node, err := e.kube.CoreV1().Nodes().Get(ctx, e.nodeName(short), metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if len(node.Spec.Taints) > 0 {
				return fmt.Sprintf("node %s has the taint %s", short, node.Spec.Taints[0].Key)
			}
		}
		return ""
	})
}

// removeNode deletes a node, and all that runs there.
func (e *env) removeNode(short string) {
	e.t.Helper()
	if err := e.kube.CoreV1().Nodes().Delete(e.t.Context(), e.nodeName(short), metav1.DeleteOptions{}); err != nil {
		e.t.Fatalf("delete node %s: %v", short, err)
	}
}

const (
	// patience is how long a test waits for what has to happen.
	patience = 30 * time.Second
	// watchFor is how long a test watches for what must not happen. It is longer than the scheduler's first
	// back-off, so that what must not happen would have had its chance.
	watchFor = 1500 * time.Millisecond
	interval = 40 * time.Millisecond
)
