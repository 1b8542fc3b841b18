package preemption

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	profile = "reprieve-scheduler"
	// ownerLabel ties nodes to the test that they belong to, zoneLabel sets them apart within it.
	ownerLabel = "test.reprieve.dev/owner"
	zoneLabel  = "test.reprieve.dev/zone"
	finalizer  = "test.reprieve.dev/hold"
	// watchFor is how long a test watches for what must not happen. It is longer than the scheduler's first
	// back-off, so that what must not happen would have had its chance.
	watchFor = 1500 * time.Millisecond
	interval = 40 * time.Millisecond
)

// priorityClasses are what all tests share.
var priorityClasses = map[string]int32{"low": 100, "below": 300, "mid": 500, "above": 1000}

// shared is the playground of this package, started by the first test that asks for it.
var shared struct {
	once  sync.Once
	run   *playground.Playground
	proxy *turnstile.Proxy
	files string
	err   error
}

func TestMain(m *testing.M) {
	flag.Parse()
	// They wait most of the time, for one scheduler.
	if err := flag.Set("test.parallel", "12"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if shared.run != nil {
		if err := shared.run.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the playground:", err)
			code = max(code, 1)
		}
	}
	if shared.proxy != nil {
		shared.proxy.Close()
	}
	if shared.files != "" {
		if err := os.RemoveAll(shared.files); err != nil {
			fmt.Fprintln(os.Stderr, "remove the configuration:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// startShared runs the playground, and in it a scheduler behind a proxy.
func startShared(t *testing.T) error {
	// It outlives the test that happens to be first.
	ctx := context.WithoutCancel(t.Context())
	var err error
	shared.files, err = os.MkdirTemp("", "reprieve-preemption-") //nolint:usetesting // It outlives the test that is first.
	if err != nil {
		return err
	}
	shared.run, err = playground.Start(ctx, playground.Options{
		BinDir:    playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...),
		CRDs:      crds.FS,
		Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler},
	})
	if err != nil {
		return err
	}
	direct := shared.run.RESTConfig()
	direct.QPS = -1
	if shared.proxy, err = turnstile.Start(direct); err != nil {
		return err
	}
	kubeconfig := filepath.Join(shared.files, "kubeconfig")
	if err := shared.proxy.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	config := filepath.Join(shared.files, "scheduler.yaml")
	if err := os.WriteFile(config, []byte(schedulerConfig("")), 0o600); err != nil {
		return err
	}
	if err := createPriorityClasses(ctx, direct); err != nil {
		return err
	}
	_, err = shared.run.StartScheduler(ctx, playground.Scheduler, playground.SchedulerOptions{
		Config: config, Kubeconfig: kubeconfig, Args: schedulerArgs(),
	})
	return err
}

// schedulerArgs are further arguments for the scheduler, for a closer look at a failure.
func schedulerArgs() []string {
	if v := os.Getenv("REPRIEVE_TEST_VERBOSITY"); v != "" {
		return []string{"-v=" + v}
	}
	return nil
}

// schedulerConfig is the default configuration with no leader election, and whatever comes last.
func schedulerConfig(more string) string {
	return `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 500, burst: 1000}
profiles:
- schedulerName: ` + profile + `
  plugins:
    multiPoint:
      enabled: [{name: Reprieve}]
      disabled: [{name: DefaultPreemption}]
    queueSort:
      enabled: [{name: ReprievePrioritySort}]
      disabled: [{name: PrioritySort}]
    preFilter:
      enabled: [{name: Reprieve}]
` + more
}

func createPriorityClasses(ctx context.Context, config *rest.Config) error {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for name, value := range priorityClasses {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := kube.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create PriorityClass %s: %w", name, err)
		}
	}
	return nil
}

// env is what one test works with: a namespace and nodes of its own.
type env struct {
	*stage.Stage

	// proxy is what the scheduler's calls go through, or nil.
	proxy *turnstile.Proxy
	// objects serves PodGroups.
	objects client.Client
	ns      string
}

// newEnv makes a namespace in the shared playground.
func newEnv(t *testing.T) *env {
	t.Helper()
	shared.once.Do(func() { shared.err = startShared(t) })
	if shared.err != nil {
		t.Fatalf("start the playground: %v", shared.err)
	}
	config := shared.run.RESTConfig()
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	e := newEnvOn(&stage.Stage{T: t, Run: shared.run, Kube: kube})
	e.proxy = shared.proxy
	return e
}

// newEnvOn makes a namespace on a stage.
func newEnvOn(s *stage.Stage) *env {
	s.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		s.Fatal(err)
	}
	config := s.Run.RESTConfig()
	config.QPS = -1
	objects, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		s.Fatal(err)
	}
	created, err := s.Kube.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatalf("create a namespace: %v", err)
	}
	e := &env{Stage: s, objects: objects, ns: created.Name}
	s.Cleanup(e.clear)
	// Pods are admitted only where the default service account exists.
	e.Eventually("the default service account exists", func(ctx context.Context) string {
		if _, err := e.Kube.CoreV1().ServiceAccounts(e.ns).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return e
}

// clear removes what would be in the way of other tests. The namespace goes in its own time.
func (e *env) clear() {
	if e.Failed() {
		e.Log(e.dump())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Context()), stage.Patience)
	defer cancel()
	for _, pod := range e.podsIn(ctx) {
		if len(pod.Finalizers) > 0 {
			e.letGo(ctx, pod.Name)
		}
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	mine := metav1.ListOptions{LabelSelector: ownerLabel + "=" + e.ns}
	if err := errors.Join(
		e.Kube.CoreV1().Pods(e.ns).DeleteCollection(ctx, now, metav1.ListOptions{}),
		e.Kube.CoreV1().Nodes().DeleteCollection(ctx, now, mine),
		e.Kube.CoreV1().Namespaces().Delete(ctx, e.ns, metav1.DeleteOptions{}),
	); err != nil {
		e.Errorf("clear the namespace: %v", err)
	}
}

// addNodes creates that many nodes of a zone, named by the zone and a number, and waits until pods can go there.
func (e *env) addNodes(zone string, count int, cpus int64) {
	e.Helper()
	for i := range count {
		name := e.nodeName(zone, i)
		room := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourcePods:   resource.MustParse("60"),
			heldResource:          resource.MustParse("100"),
		}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				ownerLabel: e.ns, zoneLabel: zone, corev1.LabelHostname: name,
			}},
			Status: corev1.NodeStatus{
				Capacity: room, Allocatable: room,
				// Simulated pods take their host's address from here.
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.64.0.1"}},
			},
		}
		if _, err := e.Kube.CoreV1().Nodes().Create(e.Context(), node, metav1.CreateOptions{}); err != nil {
			e.Fatalf("create node %s: %v", name, err)
		}
		e.Eventually("node "+name+" is ready", func(ctx context.Context) string {
			node, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			switch {
			case err != nil:
				return err.Error()
			case len(node.Spec.Taints) > 0:
				return "it has the taint " + node.Spec.Taints[0].Key
			}
			return ""
		})
	}
}

func (e *env) nodeName(zone string, i int) string { return fmt.Sprintf("%s-%s-%d", e.ns, zone, i) }

// zoneOf is the zone of a node, by its name.
func (e *env) zoneOf(node string) string {
	rest, _ := strings.CutPrefix(node, e.ns+"-")
	zone, _, _ := strings.Cut(rest, "-")
	return zone
}

// podsIn lists the pods of the test.
func (e *env) podsIn(ctx context.Context) []corev1.Pod {
	e.Helper()
	list, err := e.Kube.CoreV1().Pods(e.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.Fatalf("list pods: %v", err)
	}
	return list.Items
}

// unit lists the pods of a unit.
func (e *env) unit(ctx context.Context, name string) []corev1.Pod {
	return slices.DeleteFunc(e.podsIn(ctx), func(pod corev1.Pod) bool { return pod.Labels["unit"] != name })
}

// pod reads one pod, or returns nil if there is none.
func (e *env) pod(ctx context.Context, name string) *corev1.Pod {
	all := e.podsIn(ctx)
	if i := slices.IndexFunc(all, func(p corev1.Pod) bool { return p.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// never watches for a bounded time, and fails the test as soon as violation returns anything but "".
func (e *env) never(what string, violation func(ctx context.Context) string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), watchFor)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		if v := violation(e.Context()); v != "" {
			return false, errors.New(v)
		}
		return false, nil
	})
	if !wait.Interrupted(err) {
		e.Fatalf("%s, but: %v", what, err)
	}
}

// eventsOf lists the events of an object.
func (e *env) eventsOf(ctx context.Context, name, reason string) []corev1.Event {
	list, err := e.Kube.CoreV1().Events(e.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.Log(err)
		return nil
	}
	return slices.DeleteFunc(list.Items, func(ev corev1.Event) bool {
		return ev.InvolvedObject.Name != name || ev.Reason != reason
	})
}

// waitEvent waits until an event has all of the phrases, and names the related object.
func (e *env) waitEvent(name, reason, related string, phrases ...string) {
	e.Helper()
	e.Eventually(fmt.Sprintf("event %s on %s that mentions %q", reason, name, phrases), func(ctx context.Context) string {
		seen := ""
		for _, ev := range e.eventsOf(ctx, name, reason) {
			about := ""
			if ev.Related != nil {
				about = ev.Related.Name
			}
			if mentions(ev.Message, phrases) && about == related {
				return ""
			}
			seen += fmt.Sprintf("%q about %q; ", ev.Message, about)
		}
		return "seen: " + seen
	})
}

// mentions reports whether a text has all of the phrases in it.
func mentions(text string, phrases []string) bool {
	return !slices.ContainsFunc(phrases, func(p string) bool { return !strings.Contains(text, p) })
}

// dump says how things stand in the namespace, for failures.
func (e *env) dump() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Context()), 5*time.Second)
	defer cancel()
	var b strings.Builder
	fmt.Fprintf(&b, "namespace %s:\n", e.ns)
	for _, pod := range e.podsIn(ctx) {
		fmt.Fprintf(&b, "  pod %s: %s on %q, nominated %q, deleting %v\n", pod.Name, pod.Status.Phase,
			pod.Spec.NodeName, pod.Status.NominatedNodeName, pod.DeletionTimestamp != nil)
	}
	var groups v1alpha1.PodGroupList
	if err := e.objects.List(ctx, &groups, client.InNamespace(e.ns)); err == nil {
		for i := range groups.Items {
			for _, c := range groups.Items[i].Status.Conditions {
				fmt.Fprintf(&b, "  PodGroup %s: %s=%s %s: %s\n", groups.Items[i].Name, c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	if list, err := e.Kube.CoreV1().Events(e.ns).List(ctx, metav1.ListOptions{}); err == nil {
		for _, ev := range list.Items[max(0, len(list.Items)-25):] {
			fmt.Fprintf(&b, "  event %s on %s: %s\n", ev.Reason, ev.InvolvedObject.Name, ev.Message)
		}
	}
	if e.proxy != nil {
		for _, c := range e.proxy.Calls(turnstile.Request{Namespace: e.ns}) {
			if c.Resource != "events" {
				fmt.Fprintf(&b, "  call %s %s/%s %s: came %d, answered %d with %d\n", c.Verb, c.Resource, c.Subresource, c.Name, c.Came, c.Answered, c.Status)
			}
		}
	}
	return b.String()
}
