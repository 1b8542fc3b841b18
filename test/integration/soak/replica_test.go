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

// election is a leader election in which the lease changes hands within about ten seconds.
const election = "{leaderElect: true, leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 1s, resourceNamespace: kube-system, resourceName: reprieve-scheduler}"

// maxGracePeriod and terminationTimeout bound how long schedulers wait for a terminating pod. Jobs
// have grace periods of up to 3 s.
const maxGracePeriod, terminationTimeout = 4 * time.Second, 8 * time.Second

// leaseHeld is the time after a renewal for which a replica surely leads.
const leaseHeld = 5 * time.Second

// replica is one of the schedulers, with a proxy of its own. It is started again whenever it ends,
// as a kubelet would do.
type replica struct {
	*stage.Stage

	name      string
	proxy     *slowapi.Proxy
	component *playground.Component
	rule      atomic.Pointer[slowapi.Rule]
	// renewed is the time of its last write of the lease, in nanoseconds.
	renewed atomic.Int64
	// down prevents its restart.
	down atomic.Bool
	// exits counts how often it has ended by itself.
	exits atomic.Int64
}

// newReplica starts a scheduler with a content type for its calls; "" for its default.
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

// set sets the rule for its calls.
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

// supervise starts the scheduler again whenever it has ended, until ctx is done.
func (r *replica) supervise(ctx context.Context) {
	// The poll ends with ctx, which is no error.
	_ = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if !r.down.Load() && r.component.PID() == 0 {
			if err := r.component.Start(ctx); err != nil && ctx.Err() == nil {
				r.Logf("%s: %.200s", r.name, err)
			}
		}
		return false, nil
	})
}

// kill ends the scheduler at once. It is started again unless it is down.
func (r *replica) kill() error { return r.component.Kill(syscall.SIGKILL) }

// stop ends the scheduler for good.
func (r *replica) stop() {
	r.down.Store(true)
	if err := r.kill(); err != nil {
		r.Error(err)
	}
}

// leads reports whether it has renewed the lease recently and after the given time.
func (r *replica) leads(since time.Time) bool {
	renewed := time.Unix(0, r.renewed.Load())
	return r.component.PID() != 0 && time.Since(renewed) < leaseHeld && renewed.After(since)
}

// leader returns the replica that last renewed the lease after the given time; nil if none has done
// so recently.
func (s *soak) leader(since time.Time) *replica {
	var last *replica
	for _, r := range s.replicas {
		if r.leads(since) && (last == nil || r.renewed.Load() > last.renewed.Load()) {
			last = r
		}
	}
	return last
}

// awaitLeader waits until a replica leads that has renewed the lease after the given time.
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
