package preemption

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// zoneLabel is a node label. It divides the nodes of a test into zones.
const zoneLabel = "test.reprieve.dev/zone"

// priorityClasses has the priority classes of all tests.
var priorityClasses = map[string]int32{"low": 100, "below": 300, "mid": 500, "above": 1000}

var (
	// shared is the playground that all tests of the package share.
	shared = stage.Shared{
		// Tests of gangs use the PodGroups of two API groups: reprieve.dev, and scheduling.k8s.io.
		Options:  playground.Options{NativeWorkloadAPI: true},
		Parallel: 12,
		Begin:    begin,
	}
	// proxy is the proxy for the calls of the shared playground's scheduler.
	proxy *turnstile.Proxy
)

func TestMain(m *testing.M) {
	code := shared.RunTests(m)
	if proxy != nil {
		proxy.Close()
	}
	os.Exit(code)
}

// begin starts the scheduler of the playground. Its calls pass through the proxy.
func begin(ctx context.Context, s *stage.Stage, dir string) error {
	s.CreateClasses(priorityClasses)
	direct := s.Run.RESTConfig()
	direct.QPS = -1
	var err error
	if proxy, err = turnstile.Start(direct); err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := proxy.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	config, err := schedulerConfig("").Write(dir)
	if err != nil {
		return err
	}
	_, err = s.Run.StartScheduler(ctx, playground.Scheduler, playground.SchedulerOptions{
		Config: config, Kubeconfig: kubeconfig, Args: stage.SchedulerArgs(),
	})
	return err
}

// schedulerConfig returns the default configuration with higher limits for API calls. The argument
// more is appended to the YAML text.
func schedulerConfig(more string) stage.Config {
	return stage.Config{More: "clientConnection: {qps: 500, burst: 1000}\n" + more}
}

// env is the environment of one test: its namespace, its nodes and the proxy.
type env struct {
	*stage.Stage

	// proxy is the proxy for the scheduler's calls, or nil if there is none.
	proxy *turnstile.Proxy
}

// newEnv creates a namespace in the shared playground. The test's PodGroups belong to the given
// API.
func newEnv(t *testing.T, api stage.GroupAPI) *env {
	t.Helper()
	e := &env{Stage: shared.In(t), proxy: proxy}
	e.Groups = api
	e.Explain = e.calls
	return e
}

// each runs a case in a new environment. If groups is true, the case uses PodGroups, and each runs
// it for both APIs of PodGroups.
func each(t *testing.T, name string, groups bool, run func(*env)) {
	t.Helper()
	if !groups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newEnv(t, stage.ReprieveGroups()))
		})
		return
	}
	for _, api := range stage.GroupAPIs(t) {
		t.Run(name+"/"+api.Name, func(t *testing.T) {
			t.Parallel()
			run(newEnv(t, api))
		})
	}
}

// addNodes creates nodes in a zone, and waits until the scheduler can use them. The names of the
// nodes have the zone and a number.
func (e *env) addNodes(zone string, count int, cpus int64) {
	e.Helper()
	shorts := make([]string, count)
	for i := range shorts {
		shorts[i] = shortName(zone, i)
		node := stage.NewNode(e.Namespace, shorts[i], cpus)
		node.Labels[zoneLabel] = zone
		held := resource.MustParse("100")
		node.Status.Capacity[heldResource], node.Status.Allocatable[heldResource] = held, held
		e.Create(node)
	}
	e.WaitReady(shorts...)
}

func shortName(zone string, i int) string { return fmt.Sprintf("%s-%d", zone, i) }

func (e *env) nodeName(zone string, i int) string { return e.NodeName(shortName(zone, i)) }

// zoneOf returns the zone of a node, which is part of the node's name.
func (e *env) zoneOf(node string) string {
	rest, _ := strings.CutPrefix(node, e.NodeName(""))
	zone, _, _ := strings.Cut(rest, "-")
	return zone
}

// unit returns the pods of a unit.
func (e *env) unit(ctx context.Context, name string) []corev1.Pod {
	e.Helper()
	var out []corev1.Pod
	for _, pod := range e.AllPods(ctx) {
		if pod.Labels["unit"] == name {
			out = append(out, pod)
		}
	}
	return out
}

// waitEvent waits for an event about an object. The event must have the given reason, contain the
// phrases, and name the related object.
func (e *env) waitEvent(name, reason, related string, phrases ...string) {
	e.Helper()
	e.Eventually(fmt.Sprintf("event %s on %s that mentions %q", reason, name, phrases), func(ctx context.Context) string {
		seen := ""
		for _, ev := range e.EventsOf(ctx, name, reason) {
			about := ""
			if ev.Related != nil {
				about = ev.Related.Name
			}
			if stage.Mentions(ev.Message, phrases) && about == related {
				return ""
			}
			seen += fmt.Sprintf("%q about %q; ", ev.Message, about)
		}
		return "seen: " + seen
	})
}

// calls returns the scheduler's requests so far as text, without requests about events.
func (e *env) calls() string {
	var b strings.Builder
	for _, c := range e.proxy.Calls(turnstile.Request{Namespace: e.Namespace}) {
		if c.Resource != "events" {
			fmt.Fprintf(&b, "  call %s %s/%s %s: came %d, answered %d with %d\n", c.Verb, c.Resource, c.Subresource, c.Name, c.Came, c.Answered, c.Status)
		}
	}
	return b.String()
}
