package soak

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/slowapi"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// election is a leader election for two schedulers. The standby takes over about ten seconds after
// the leader fails.
const election = "{leaderElect: true, leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 1s, resourceNamespace: kube-system, resourceName: reprieve-scheduler}"

// maxGracePeriod and terminationTimeout are settings of the schedulers: they bound the wait for
// terminating pods. The grace periods of jobs are at most 3 seconds.
const maxGracePeriod, terminationTimeout = 4 * time.Second, 8 * time.Second

// leaseHeld is the time after a renewal of the Lease during which a scheduler is certainly the
// leader.
const leaseHeld = 5 * time.Second

// replica is one of the two schedulers. It has its own proxy. If it ends, it is started again, as a
// kubelet would do.
type replica struct {
	*stage.Stage

	name      string
	proxy     *slowapi.Proxy
	component *playground.Component
	rule      atomic.Pointer[slowapi.Rule]
	// renewed is the time when the scheduler last wrote the Lease, in nanoseconds since 1970.
	renewed atomic.Int64
	// While down is true, the scheduler is not started again.
	down atomic.Bool
	// exits is the number of times that the scheduler has exited without being killed.
	exits atomic.Int64
}

// newReplica starts a scheduler. contentType is the content type of its API calls, or "" for the
// default.
func newReplica(s *stage.Stage, name, contentType string) *replica {
	s.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Run.SchedulerKubeconfig())
	if err != nil {
		s.Fatal(err)
	}
	config.QPS = -1
	r := &replica{Stage: s, name: name, proxy: slowapi.Start(s, config)}
	r.set(passThrough)
	r.proxy.Set(r.decide)
	more := ""
	if contentType != "" {
		more = "clientConnection: {contentType: " + contentType + ", acceptContentTypes: " + contentType + "}\n"
	}
	profile := stage.ProfileConfig(stage.Profile, fmt.Sprintf("{name: Reprieve, args: {maxGracePeriod: %v, terminationTimeout: %v}}", maxGracePeriod, terminationTimeout))
	file, err := stage.Config{LeaderElection: election, Profiles: []string{profile}, More: more}.Write(s.TempDir())
	if err != nil {
		s.Fatal(err)
	}
	r.component, err = s.Run.StartScheduler(s.Context(), "scheduler-"+name, playground.SchedulerOptions{
		Config: file, Kubeconfig: r.proxy.Kubeconfig(s), Args: stage.SchedulerArgs(),
		Ended: func(error) { r.exits.Add(1) },
	})
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func passThrough(slowapi.Call) slowapi.Answer { return slowapi.Answer{} }

// set sets the proxy's rule for the calls of the scheduler.
func (r *replica) set(rule slowapi.Rule) { r.rule.Store(&rule) }

func (r *replica) decide(call slowapi.Call) slowapi.Answer {
	answer := (*r.rule.Load())(call)
	if isLease(call) && call.Method != http.MethodGet && answer.Refuse == 0 {
		r.renewed.Store(time.Now().UnixNano())
	}
	return answer
}

func isLease(call slowapi.Call) bool {
	return strings.HasPrefix(call.Path, "/apis/coordination.k8s.io/")
}

// supervise starts the scheduler whenever it has ended, until ctx is done.
func (r *replica) supervise(ctx context.Context) {
	// Ignore the error. It only reports the end of ctx.
	_ = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if !r.down.Load() && r.component.PID() == 0 {
			if err := r.component.Start(ctx); err != nil && ctx.Err() == nil {
				r.Logf("%s: %.200s", r.name, err)
			}
		}
		return false, nil
	})
}

// kill kills the scheduler. It is started again, unless down is true.
func (r *replica) kill() error { return r.component.Kill(syscall.SIGKILL) }

// stop kills the scheduler, which is not started again.
func (r *replica) stop() {
	r.down.Store(true)
	if err := r.kill(); err != nil {
		r.Error(err)
	}
}

// leads reports whether the scheduler is certainly the leader, and has renewed the Lease after the
// time since.
func (r *replica) leads(since time.Time) bool {
	renewed := time.Unix(0, r.renewed.Load())
	return r.component.PID() != 0 && time.Since(renewed) < leaseHeld && renewed.After(since)
}

// leader returns the replica that leads. If both seem to lead, it returns the replica that renewed
// the Lease last. It returns nil if none leads.
func (s *soak) leader(since time.Time) *replica {
	var last *replica
	for _, r := range s.replicas {
		if r.leads(since) && (last == nil || r.renewed.Load() > last.renewed.Load()) {
			last = r
		}
	}
	return last
}

// awaitLeader waits until a replica leads and has renewed the Lease after the time since.
func (s *soak) awaitLeader(since time.Time) *replica {
	s.Helper()
	var found *replica
	s.Eventually("a scheduler leads", func(context.Context) string {
		if found = s.leader(since); found == nil {
			return "none has renewed the lease"
		}
		return ""
	})
	return found
}
