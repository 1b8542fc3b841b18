package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// childrenOf returns the children of a process: a map from the name of each child to its process
// ID. The kernel cuts names off after 15 characters.
func childrenOf(t *testing.T, parent int) map[string]int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name is in parentheses. It may contain spaces and parentheses.
		stat := string(raw)
		name := stat[strings.Index(stat, "(")+1 : strings.LastIndex(stat, ")")]
		fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
		if fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		children[name] = pid
	}
	return children
}

func requireEnded(t *testing.T, children map[string]int) {
	t.Helper()
	for name, pid := range children {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s (process %d) is still there: %v", name, pid, err)
		}
	}
}

func TestDeathOfAComponent(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	p := upWithoutScheduler(t, kubeconfig)
	p.waitReady(t)
	children := childrenOf(t, p.cmd.Process.Pid)
	pid, ok := children[playground.Kwok]
	if !ok {
		t.Fatalf("no kwok among %v", children)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.waitExit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	_, report, found := strings.Cut(p.stderr.String(), "playground: kwok died: signal: killed; the end of its log:\n")
	if count := strings.Count(report, "\n"); !found || count < 1 || count > 20 {
		t.Errorf("standard error:\n%s", p.stderr)
	}
	requireEnded(t, children)
	requireEmpty(t, p.temporary)
	requireAbsent(t, kubeconfig)
}

func TestChildrenDoNotOutliveAKill(t *testing.T) {
	t.Parallel()
	p := upWithoutScheduler(t, filepath.Join(t.TempDir(), "kubeconfig"))
	p.waitReady(t)
	children := childrenOf(t, p.cmd.Process.Pid)
	if len(children) != 4 {
		t.Errorf("children %v, want 4", children)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	p.signal(t, syscall.SIGKILL)
	p.waitExit(t)
	// The parent is dead, so another process adopts the children. It may reap them late, so a dead
	// child may still be listed.
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(context.Context) (bool, error) {
		for _, pid := range children {
			if !isDead(pid) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Errorf("not all of %v have ended: %v", children, err)
	}
}

func isDead(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	stat := string(raw)
	return strings.HasPrefix(stat[strings.LastIndex(stat, ")")+1:], " Z")
}
