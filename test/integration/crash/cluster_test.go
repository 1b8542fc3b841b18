package crash

import (
	"syscall"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// priorityClasses has the classes from the victims' to the preemptor's. The two classes between
// them could be preempted too, but need not be.
var priorityClasses = map[string]int32{"low": 100, "lowish": 200, "mid": 500, "high": 1000}

// cluster is a control plane without a scheduler, and a proxy for the schedulers that tests start.
type cluster struct {
	*stage.Stage

	proxy *slowapi.Proxy
	// kubeconfig has the address of the proxy.
	kubeconfig string
	// queued is true if every world has queues. Room is then reclaimed for a queue rather than
	// preempted by priority.
	queued bool
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := stage.New(t, playground.Options{Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler}})
	s.CreateClasses(priorityClasses)
	proxy := slowapi.Start(t, s.Run.RESTConfig())
	return &cluster{Stage: s, proxy: proxy, kubeconfig: proxy.Kubeconfig(t)}
}

const (
	alone = "{leaderElect: false}"
	// oneOfTwo is a leader election in which the lease changes hands within a few seconds.
	oneOfTwo = "{leaderElect: true, leaseDuration: 15s, renewDeadline: 12s, retryPeriod: 1s, resourceNamespace: kube-system, resourceName: reprieve-scheduler}"
)

// startScheduler runs a scheduler that talks through the proxy.
func (c *cluster) startScheduler(t *testing.T, name, election string) *playground.Component {
	t.Helper()
	config, err := stage.Config{LeaderElection: election, More: "clientConnection: {qps: 1000, burst: 2000}\n"}.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	options := playground.SchedulerOptions{Config: config, Kubeconfig: c.kubeconfig, Args: stage.SchedulerArgs()}
	started, err := c.Run.StartScheduler(t.Context(), name, options)
	if err != nil {
		t.Fatal(err)
	}
	// Stop it before the proxy ends. A leader that cannot renew its lease would exit by itself,
	// which counts as a crash.
	t.Cleanup(func() {
		if started.PID() != 0 {
			if err := started.Kill(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	return started
}
