package command

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/deploy"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// TestFlagsAlone runs the scheduler with flags and without a configuration file. Its only profile
// must have the name in the flags. By default, the scheduler must acquire the leader election Lease
// before it schedules. It must log JSON if a flag says so.
func TestFlagsAlone(t *testing.T) {
	t.Parallel()
	p := playgroundtest.Start(t, playground.Options{
		NodeGroups: []playground.NodeGroup{{Count: 1}},
		CRDs:       deploy.API,
		Scheduler:  playground.SchedulerOptions{Path: playground.NoScheduler},
	})
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	end, log := startScheduler(t, "--kubeconfig="+p.SchedulerKubeconfig(), "--secure-port=0", "--scheduler-name=renamed")
	waitScheduled(t, client, "renamed")
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), schedulerBinary, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("nobody leads: %v, %v", lease, err)
	}
	// The scheduler must have logged no error. When it ends, it must release the Lease, so that the
	// next scheduler does not wait for the expiry.
	for line := range strings.Lines(log()) {
		if errorLine.MatchString(line) {
			t.Errorf("an error is logged in a healthy start: %s", line)
		}
	}
	end()
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, startLimit, true, func(ctx context.Context) (bool, error) {
		lease, err = client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, schedulerBinary, metav1.GetOptions{})
		return err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""), err
	})
	if err != nil {
		t.Errorf("the lease is not given back: %v", err)
	}

	_, log = startScheduler(t, "--kubeconfig="+p.SchedulerKubeconfig(), "--secure-port=0", "--scheduler-name=again", "--logging-format=json")
	waitScheduled(t, client, "again")
	for line := range strings.Lines(log()) {
		if strings.HasSuffix(line, "\n") && !json.Valid([]byte(line)) {
			t.Errorf("a line of a log in JSON is none: %s", line)
		}
	}
}

// errorLine matches the beginning of an error that klog prints.
var errorLine = regexp.MustCompile(`^E\d{4} `)

// startScheduler runs the scheduler with the arguments. The function end sends a signal and waits
// for the exit. The function log returns the scheduler's output so far. The scheduler is killed at
// the end of the test.
func startScheduler(t *testing.T, args ...string) (end func(), log func() string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(playgroundtest.BinDir(t, schedulerBinary), schedulerBinary), args...) //nolint:noctx // it ends by signals
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	log = func() string {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = []string{"HOME=" + t.TempDir()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop := func(signal syscall.Signal) {
		once.Do(func() {
			if err := cmd.Process.Signal(signal); err != nil {
				t.Errorf("it has ended already: %v", err)
			}
			// Ignore the exit code: like kube-scheduler, it reports a lost Lease when it ends.
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("the scheduler says:\n%s", log())
			}
		})
	}
	t.Cleanup(func() { stop(syscall.SIGKILL) })
	return func() {
		t.Helper()
		killed := time.AfterFunc(startLimit, func() { _ = cmd.Process.Kill() })
		stop(syscall.SIGTERM)
		if !killed.Stop() {
			t.Errorf("it did not end within %s", startLimit)
		}
	}, log
}
