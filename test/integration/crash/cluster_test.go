package crash

import (
	"syscall"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// priorityClasses, from what has to go to who takes it. The two in the middle could be taken as well, and are not
// needed.
var priorityClasses = map[string]int32{"low": 100, "lowish": 200, "mid": 500, "high": 1000}

// cluster is a control plane without a scheduler, and the proxy for those that tests start.
type cluster struct {
	*stage.Stage

	proxy *slowapi.Proxy
	// kubeconfig leads to the proxy.
	kubeconfig string
	// queued has every world be one of queues, in which room is taken back and not taken by priority.
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
	// oneOfTwo has a lease that changes hands within a few seconds.
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
