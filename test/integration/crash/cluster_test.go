package crash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	profile  = "reprieve-scheduler"
	interval = 50 * time.Millisecond
	// watchFor is how long a test watches for what must not happen. It is longer than the scheduler's first back-off,
	// so that what must not happen would have had its chance.
	watchFor = 1500 * time.Millisecond
)

// priorityClasses, from what has to go to who takes it. The two in the middle could be taken as well, and are not
// needed.
var priorityClasses = map[string]int32{"low": 100, "lowish": 200, "mid": 500, "high": 1000}

// cluster is a control plane without a scheduler, and the proxy for those that tests start.
type cluster struct {
	run   *playground.Playground
	proxy *slowapi.Proxy
	kube  kubernetes.Interface
	// groups serves PodGroups.
	groups client.Client
	// kubeconfig leads to the proxy.
	kubeconfig string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := stage.New(t, playground.Options{Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler}})
	c := &cluster{run: s.Run, kube: s.Kube, proxy: slowapi.Start(t, s.Run.RESTConfig())}
	c.kubeconfig = c.proxy.Kubeconfig(t)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.groups, err = client.New(c.run.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for name, value := range priorityClasses {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := c.kube.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create PriorityClass %s: %v", name, err)
		}
	}
	return c
}

const (
	alone = "{leaderElect: false}"
	// oneOfTwo has a lease that changes hands within a few seconds.
	oneOfTwo = "{leaderElect: true, leaseDuration: 8s, renewDeadline: 6s, retryPeriod: 1s, resourceNamespace: kube-system, resourceName: reprieve-scheduler}"
)

// startScheduler runs a scheduler that talks through the proxy.
func (c *cluster) startScheduler(t *testing.T, name, election string) *playground.Component {
	t.Helper()
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: ` + election + `
clientConnection: {qps: 1000, burst: 2000}
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
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options := playground.SchedulerOptions{
		Config: config, Kubeconfig: c.kubeconfig, Args: verbosity(),
	}
	started, err := c.run.StartScheduler(t.Context(), name, options)
	if err != nil {
		t.Fatal(err)
	}
	// Before the proxy ends: a leader that cannot renew its lease would end by itself, which counts as a death.
	t.Cleanup(func() {
		if started.PID() != 0 {
			if err := started.Kill(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	return started
}

// verbosity is for a closer look at a failure.
func verbosity() []string {
	if v := os.Getenv("REPRIEVE_TEST_VERBOSITY"); v != "" {
		return []string{"-v=" + v}
	}
	return nil
}

// eventually waits until condition returns "".
func (c *cluster) eventually(t *testing.T, what string, condition func(ctx context.Context) string) {
	t.Helper()
	(&stage.Stage{T: t, Run: c.run, Kube: c.kube}).Eventually(what, condition)
}

// never watches for a while, and fails the test as soon as violation returns anything but "".
func never(t *testing.T, what string, violation func(ctx context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchFor)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		if v := violation(t.Context()); v != "" {
			return false, errors.New(v)
		}
		return false, nil
	})
	if !wait.Interrupted(err) {
		t.Fatalf("%s, but: %v", what, err)
	}
}
