package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// documentedCommand returns the words of the command in docs/playground.md that starts a scheduler
// by hand.
func documentedCommand(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(t), "docs", "playground.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\$ (bin/reprieve-scheduler .*)$`).FindAllSubmatch(raw, -1)
	if len(found) != 1 {
		t.Fatalf("%d commands in docs/playground.md start a scheduler, want 1", len(found))
	}
	return strings.Fields(string(found[0][1]))
}

// TestSchedulerByHand starts the scheduler with the command in docs/playground.md. The scheduler
// then places a gang. For that, it needs the permission to fill in the priority of the PodGroup.
func TestSchedulerByHand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binDir, err := filepath.Abs(playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binDir, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	// The command in docs/playground.md uses this file name.
	kubeconfig := filepath.Join(dir, "playground.kubeconfig")
	p := upWithoutScheduler(t, kubeconfig)
	p.waitReady(t)
	words := documentedCommand(t)
	log := &lines{}
	scheduler := exec.Command(words[0], words[1:]...) //nolint:noctx // it is killed below
	scheduler.Dir = dir
	scheduler.Path = filepath.Join(dir, words[0])
	scheduler.Env = append(os.Environ(), "HOME="+dir)
	scheduler.Stdout, scheduler.Stderr = log, log
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		// Ignore the error: the test kills the scheduler.
		_ = scheduler.Wait()
	}()
	defer func() {
		_ = scheduler.Process.Kill()
		<-exited
	}()
	placeGang(t, newClient(t, kubeconfig), log)
	// The playground must end even while the scheduler has open watches.
	p.signal(t, syscall.SIGTERM)
	if code := p.waitExit(t); code != 0 {
		t.Errorf("exit code %d, want 0; standard error:\n%s", code, p.stderr)
	}
	requireAbsent(t, kubeconfig+schedulerSuffix)
}

// placeGang creates a gang of two and waits until both run.
func placeGang(t *testing.T, client kubernetes.Interface, log fmt.Stringer) {
	t.Helper()
	group := `{"apiVersion":"reprieve.dev/v1alpha1","kind":"PodGroup","metadata":{"name":"gang"},"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}}`
	err := client.Discovery().RESTClient().Post().AbsPath("/apis/reprieve.dev/v1alpha1/namespaces/default/podgroups").
		SetHeader("Content-Type", "application/json").Body([]byte(group)).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	for i := range 2 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gang-%d", i), Labels: map[string]string{"reprieve.dev/pod-group": "gang"}},
			Spec: corev1.PodSpec{
				SchedulerName: "reprieve-scheduler",
				Containers:    []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
			},
		}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	running := 0
	err = wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "reprieve.dev/pod-group=gang"})
		if err != nil {
			return false, err
		}
		running = 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == 2, nil
	})
	if err != nil {
		t.Fatalf("%d of 2 members run: %v; the scheduler says:\n%s", running, err, log)
	}
}
