package playground_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// startPlain starts a playground without a scheduler. The playground is stopped at the end of the
// test, unless the test stops it earlier.
func startPlain(t *testing.T, change func(*playground.Options)) *playground.Playground {
	t.Helper()
	options := playground.Options{
		BinDir:    playgroundtest.BinDir(t, playgroundtest.ControlPlane()...),
		Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler},
	}
	if change != nil {
		change(&options)
	}
	p, err := playground.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil && p.Err() == nil {
			t.Errorf("stop: %v", err)
		}
	})
	return p
}

func pidsOf(p *playground.Playground) map[string]int {
	pids := map[string]int{}
	for _, c := range p.Components() {
		pids[c.Name()] = c.PID()
	}
	return pids
}

// requireEnded fails the test if any of the processes still exists.
func requireEnded(t *testing.T, pids map[string]int) {
	t.Helper()
	for name, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s (process %d) is still there: %v", name, pid, err)
		}
	}
}

func requireAbsent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

// runsAPod creates a pod, binds it to node-0 and waits until it runs.
func runsAPod(t *testing.T, p *playground.Playground, name string) {
	t.Helper()
	client := newClient(t, p)
	createBound(t, client, newPod(name, nil), "node-0")
	waitPhase(t, client, name, corev1.PodRunning)
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	p := startPlain(t, func(o *playground.Options) { o.TempDir, o.Kubeconfig = temporary, kubeconfig })
	pids := pidsOf(p)
	if len(pids) != 4 {
		t.Errorf("components %v, want 4", pids)
	}
	if info, err := os.Stat(kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v; want one that only its owner can read", info, err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	requireEnded(t, pids)
	requireAbsent(t, kubeconfig)
	entries, err := os.ReadDir(temporary)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
	select {
	case <-p.Done():
	default:
		t.Error("Done is not closed")
	}
	if err := errors.Join(p.Err(), p.Stop()); err != nil {
		t.Errorf("after Stop: %v", err)
	}
	if err := p.Component(playground.Etcd).Start(t.Context()); err == nil {
		t.Error("a component of a stopped playground could be started")
	}
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	options := playground.Options{
		BinDir:     playgroundtest.BinDir(t, playgroundtest.ControlPlane()...),
		NodeGroups: []playground.NodeGroup{nodeGroup(t, 1)},
		Scheduler:  playground.SchedulerOptions{Path: playground.NoScheduler},
	}
	playgrounds := make([]*playground.Playground, 2)
	var group errgroup.Group
	for i := range playgrounds {
		group.Go(func() (err error) {
			playgrounds[i], err = playground.Start(t.Context(), options)
			return err
		})
	}
	startErr := group.Wait()
	t.Cleanup(func() {
		for _, p := range playgrounds {
			if p == nil {
				continue
			}
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	if startErr != nil {
		t.Fatal(startErr)
	}
	runsAPod(t, playgrounds[0], "only-here")
	pods, err := newClient(t, playgrounds[1]).CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 0 {
		t.Errorf("the other playground has %d pods, want none", len(pods.Items))
	}
	if err := playgrounds[0].Stop(); err != nil {
		t.Fatal(err)
	}
	runsAPod(t, playgrounds[1], "goes-on")
}

// waitLogged waits until a component has written to its log.
func waitLogged(t *testing.T, c *playground.Component) {
	t.Helper()
	eventually(t, c.Name()+" says something", func(context.Context) string {
		if info, err := os.Stat(c.LogPath()); err != nil || info.Size() == 0 {
			return "its log is empty"
		}
		return ""
	})
}

func TestDeathIsReported(t *testing.T) {
	t.Parallel()
	p := startPlain(t, nil)
	pids := pidsOf(p)
	waitLogged(t, p.Component(playground.Kwok))
	if err := syscall.Kill(p.Component(playground.Kwok).PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("Done is not closed")
	}
	var exit *playground.ExitError
	if !errors.As(p.Err(), &exit) {
		t.Fatalf("error %v, want an ExitError", p.Err())
	}
	if exit.Component != playground.Kwok || exit.Status != "signal: killed" || len(exit.LogTail) == 0 {
		t.Errorf("got %+v, want kwok, killed, with the end of its log", exit)
	}
	if err := p.Stop(); !errors.Is(err, exit) {
		t.Errorf("Stop returns %v, want the death of kwok", err)
	}
	requireEnded(t, pids)
	requireAbsent(t, p.DataDir())
}

func TestComponentsRestart(t *testing.T) {
	t.Parallel()
	p := startPlain(t, func(o *playground.Options) { o.NodeGroups = []playground.NodeGroup{nodeGroup(t, 1)} })
	for i, name := range []string{playground.Kwok, playground.APIServer, playground.Etcd, playground.ControllerManager} {
		c := p.Component(name)
		before := c.PID()
		if err := c.Kill(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if pid := c.PID(); pid != 0 {
			t.Errorf("%s has process %d after Kill", name, pid)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if pid := c.PID(); pid == 0 || pid == before {
			t.Errorf("%s has process %d after Start, %d before", name, pid, before)
		}
		if err := c.Start(t.Context()); err == nil {
			t.Errorf("%s was started twice", name)
		}
		runsAPod(t, p, fmt.Sprintf("after-%d", i))
	}
	if err := p.Err(); err != nil {
		t.Errorf("kills that were asked for are reported: %v", err)
	}
}

func TestDataDirIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there")
	keep := func(o *playground.Options) {
		o.DataDir = dir
		o.NodeGroups = []playground.NodeGroup{nodeGroup(t, 1)}
	}
	first := startPlain(t, keep)
	runsAPod(t, first, "kept")
	token := serviceAccountToken(t, first)
	lease := nodeLease(t, first)
	if _, err := playground.Start(t.Context(), playground.Options{
		BinDir:    playgroundtest.BinDir(t),
		DataDir:   dir,
		Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler},
	}); err == nil || !strings.Contains(err.Error(), "another playground is using it") {
		t.Errorf("a second playground in the same directory: %v", err)
	}
	// The second playground must not have touched the files of the first one.
	if _, err := os.Stat(filepath.Join(dir, "tmp")); err != nil {
		t.Error(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := startPlain(t, keep)
	client := newClient(t, second)
	waitPhase(t, client, "kept", corev1.PodRunning)
	runsAPod(t, second, "new")
	if nodeLease(t, second) == lease {
		t.Error("the lease of a node is still that of an old kwok, which is in the way until it expires")
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := second.WriteKubeconfig(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	if got := whoAmI(t, kubeconfig); got != "system:serviceaccount:default:default" {
		t.Errorf("a token from before belongs to %q now", got)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	_, err := playground.Start(t.Context(), playground.Options{
		BinDir:    playgroundtest.BinDir(t, playgroundtest.ControlPlane()...),
		TempDir:   temporary,
		Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler},
		ExtraArgs: map[string][]string{playground.Kwok: {"--no-such-flag"}},
	})
	var exit *playground.ExitError
	if !errors.As(err, &exit) || exit.Component != playground.Kwok || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("error %v, want that kwok died of its flag", err)
	}
	entries, err := os.ReadDir(temporary)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestStartIsInterrupted(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := playground.Start(ctx, playground.Options{
		BinDir:    playgroundtest.BinDir(t, playgroundtest.ControlPlane()...),
		TempDir:   temporary,
		Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler},
		// The first step that is reported is the start of etcd.
		Progress: func(string) { cancel() },
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was canceled", err)
	}
	entries, err := os.ReadDir(temporary)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// nodeLease returns the UID of the only node lease.
func nodeLease(t *testing.T, p *playground.Playground) types.UID {
	t.Helper()
	leases, err := newClient(t, p).CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != 1 {
		t.Fatalf("%v: %d leases of nodes, want 1", err, len(leases.Items))
	}
	return leases.Items[0].UID
}
