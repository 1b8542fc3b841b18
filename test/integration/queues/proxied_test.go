package queues

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// proxied is a cluster whose scheduler sends its calls through a proxy. The proxy can hold calls,
// or make them fail.
type proxied struct {
	*cluster
	proxy *turnstile.Proxy
	// before is the number of delete requests before this subtest. The proxy records the requests
	// of all subtests.
	before int
}

// behindProxy starts a playground with one node of 8 GPUs. The calls of its scheduler pass through
// a proxy.
func behindProxy(t *testing.T) *proxied {
	t.Helper()
	options := nodesOf(1)
	options.Scheduler.Path = playground.NoScheduler
	var proxy *turnstile.Proxy
	// The cleanup functions run in reverse order, so the proxy is closed after its clients have
	// stopped.
	t.Cleanup(func() {
		if proxy != nil {
			proxy.Close()
		}
	})
	s := stage.New(t, options)
	direct := s.Run.RESTConfig()
	direct.QPS = -1
	var err error
	if proxy, err = turnstile.Start(direct); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	config, err := (stage.Config{}).Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run.StartScheduler(t.Context(), playground.Scheduler, playground.SchedulerOptions{
		Config: config, Kubeconfig: kubeconfig, Args: stage.SchedulerArgs(),
	}); err != nil {
		t.Fatal(err)
	}
	c := &proxied{cluster: clusterOn(t, s), proxy: proxy}
	c.classes()
	return c
}

// play runs a subtest with the proxy, on an empty cluster.
func (p *proxied) play(name string, play func(p *proxied)) {
	p.Helper()
	p.scene(name, func(c *cluster) {
		play(&proxied{cluster: c, proxy: p.proxy, before: len(p.proxy.Calls(realDeletes()))})
	})
}

// deletes matches the scheduler's requests that delete pods.
func deletes() turnstile.Request { return turnstile.Request{Verb: "delete", Resource: "pods"} }

// realDeletes matches the scheduler's requests that delete pods and are not dry runs.
func realDeletes() turnstile.Request {
	return turnstile.Request{Verb: "delete", Resource: "pods", Real: true}
}

// deleted returns the sorted names of the pods that the scheduler has tried to delete in this
// subtest.
func (p *proxied) deleted() []string {
	var out []string
	for _, call := range p.proxy.Calls(realDeletes())[p.before:] {
		out = append(out, call.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// hold holds matching requests until the subtest ends, or until the caller ends the rule.
func (p *proxied) hold(r turnstile.Request) *turnstile.Rule {
	rule := p.proxy.Hold(r)
	p.Cleanup(rule.End)
	return rule
}

// waitDeletes waits until the scheduler has tried to delete count pods, and returns their names.
func (p *proxied) waitDeletes(count int) []string {
	p.Helper()
	p.Eventually(fmt.Sprintf("%d pods are to be deleted", count), func(context.Context) string {
		if got := p.deleted(); len(got) != count {
			return fmt.Sprintf("%v are", got)
		}
		return ""
	})
	return p.deleted()
}

// staysAt checks for some time that the scheduler deletes only the named pods.
func (p *proxied) staysAt(names []string) {
	p.Helper()
	p.Never("nobody else is deleted", func(context.Context) string {
		if got := p.deleted(); !slices.Equal(got, names) {
			return fmt.Sprintf("%v are, want %v", got, names)
		}
		return ""
	})
}
