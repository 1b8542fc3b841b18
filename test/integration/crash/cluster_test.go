package crash

import (
	"syscall"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// priorityClasses maps the names of the PriorityClasses to their values. The victims have the class
// "low", and the preemptor has "high". Pods of the two classes between may be preempted by
// priority, but the preemptor does not need their room.
var priorityClasses = map[string]int32{"low": 100, "lowish": 200, "mid": 500, "high": 1000}

// cluster is a control plane without a scheduler. The tests start schedulers, whose API calls pass
// through the proxy.
type cluster struct {
	*stage.Stage

	proxy *slowapi.Proxy
	// kubeconfig is the path of a kubeconfig with the address of the proxy.
	kubeconfig string
	// queued is true if each world has queues. Then the preemptor reclaims for its queue, instead
	// of preempting by priority.
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
	// oneOfTwo is a leader election for two schedulers. The standby takes over within seconds after
	// the leader is killed.
	oneOfTwo = "{leaderElect: true, leaseDuration: 15s, renewDeadline: 12s, retryPeriod: 1s, resourceNamespace: kube-system, resourceName: reprieve-scheduler}"
)

// startScheduler starts a scheduler whose API calls pass through the proxy.
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
	// Kill the scheduler before the proxy ends. Otherwise it cannot renew its Lease and exits,
	// which the test would report as a crash.
	t.Cleanup(func() {
		if started.PID() != 0 {
			if err := started.Kill(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	return started
}
