package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

const (
	// asPlayground is an environment variable. If it is set, the test binary runs the playground
	// command.
	asPlayground = "PLAYGROUND_TEST_RUN_MAIN"

	patience = 3 * time.Minute
	interval = 25 * time.Millisecond
)

func TestMain(m *testing.M) {
	if os.Getenv(asPlayground) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lines collects output. It closes ready after a line that begins with "ready".
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	ready  chan struct{}
}

func (l *lines) Write(raw []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := strings.Contains("\n"+l.buffer.String(), "\nready")
	l.buffer.Write(raw)
	if !before && l.ready != nil && strings.Contains("\n"+l.buffer.String(), "\nready") {
		close(l.ready)
	}
	return len(raw), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// process is a run of the playground command.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *lines
	exited         chan struct{}
	// temporary is the command's directory for temporary files.
	temporary string
}

// startCommand runs the playground command with some arguments. It kills the process when the test
// ends.
func startCommand(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		cmd:       exec.Command(self, args...), //nolint:noctx // it ends by signals, which is what is tested
		stdout:    &lines{ready: make(chan struct{})},
		stderr:    &lines{},
		exited:    make(chan struct{}),
		temporary: t.TempDir(),
	}
	p.cmd.Env = append(os.Environ(), asPlayground+"=1", "TMPDIR="+p.temporary)
	p.cmd.Stdout = p.stdout
	p.cmd.Stderr = p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		// Ignore the error: ProcessState has the result of the process.
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.signal(t, syscall.SIGKILL)
		<-p.exited
	})
	return p
}

func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

func (p *process) waitReady(t *testing.T) {
	t.Helper()
	select {
	case <-p.stdout.ready:
	case <-p.exited:
		t.Fatalf("it ended before it was ready; standard error:\n%s", p.stderr)
	case <-time.After(patience):
		t.Fatalf("it is not ready; standard error:\n%s", p.stderr)
	}
}

// waitExit waits for the end of the process and returns its exit code.
func (p *process) waitExit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("it does not end; standard error:\n%s", p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		t.Errorf("left behind in %s: %v", dir, entries)
	}
}

func requireAbsent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func controlPlane(t *testing.T) string {
	t.Helper()
	return playgroundtest.BinDir(t, playgroundtest.ControlPlane()...)
}

func upWithoutScheduler(t *testing.T, kubeconfig string) *process {
	t.Helper()
	return startCommand(t, "up", "--nodes=2", "--scheduler=none", "--kubeconfig="+kubeconfig, "--bin-dir="+controlPlane(t))
}

func newClient(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestUpUntilSIGTERM(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	p := upWithoutScheduler(t, kubeconfig)
	p.waitReady(t)
	if want := "ready: 2 nodes, kubeconfig " + kubeconfig + ", for a scheduler " + kubeconfig + ".scheduler\n"; p.stdout.String() != want {
		t.Errorf("standard output is %q, want %q", p.stdout, want)
	}
	client := newClient(t, kubeconfig)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 2 {
		t.Errorf("%d nodes, want 2", len(nodes.Items))
	}
	for _, resource := range []string{"podgroups", "queues", "workloads"} {
		if err := client.Discovery().RESTClient().Get().AbsPath("/apis/reprieve.dev/v1alpha1/" + resource).Do(t.Context()).Error(); err != nil {
			t.Errorf("list %s: %v", resource, err)
		}
	}
	children := childrenOf(t, p.cmd.Process.Pid)
	if len(children) != 4 {
		t.Errorf("children %v, want 4", children)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.waitExit(t); code != 0 {
		t.Errorf("exit code %d, want 0; standard error:\n%s", code, p.stderr)
	}
	requireEnded(t, children)
	requireEmpty(t, p.temporary)
	requireAbsent(t, kubeconfig)
}

func TestUpSchedules(t *testing.T) {
	t.Parallel()
	binDir := playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	// The file names no kubeconfig and does not configure leader election. The playground must fill
	// in its kubeconfig, and wait until the scheduler leads.
	config := filepath.Join(dir, "scheduler.yaml")
	content := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: of-the-file\n" +
		"  plugins: {multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}, preFilter: {enabled: [{name: Reprieve}]},\n" +
		"    queueSort: {enabled: [{name: ReprievePrioritySort}], disabled: [{name: PrioritySort}]}}\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, "up", "--nodes=1", "--kubeconfig="+kubeconfig, "--bin-dir="+binDir, "--scheduler-config="+config)
	p.waitReady(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "plain"},
		Spec: corev1.PodSpec{
			SchedulerName: "of-the-file",
			Containers:    []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
		},
	}
	pods := newClient(t, kubeconfig).CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		current, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && current.Status.Phase == corev1.PodRunning, err
	})
	if err != nil {
		t.Errorf("the pod does not run: %v", err)
	}
	requirePriorities(t, newClient(t, kubeconfig))
	p.signal(t, syscall.SIGINT)
	if code := p.waitExit(t); code != 0 {
		t.Errorf("exit code %d, want 0; standard error:\n%s", code, p.stderr)
	}
	requireEmpty(t, p.temporary)
}

// requirePriorities checks that the scheduler fills in the priority of a PodGroup, and that the API
// server rejects a priority from anyone else. A cluster has the same admission policy.
func requirePriorities(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	const path = "/apis/reprieve.dev/v1alpha1/namespaces/default/podgroups"
	api := client.Discovery().RESTClient()
	create := func(name, priority string) error {
		body := `{"apiVersion":"reprieve.dev/v1alpha1","kind":"PodGroup","metadata":{"name":"` + name + `"},"spec":{"schedulingPolicy":{"basic":{}}` + priority + `}}`
		return api.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
	}
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(context.Context) (bool, error) {
		// The policy is effective some time after its creation, because the API server watches
		// policies.
		err := create("refused", `,"priority":1`)
		if apierrors.IsAlreadyExists(err) {
			err = api.Delete().AbsPath(path + "/refused").Do(t.Context()).Error()
		}
		return apierrors.IsForbidden(err), nil
	})
	if err != nil {
		t.Errorf("a user sets the priority of a PodGroup: %v", err)
	}
	if err := create("group", ""); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		raw, err := api.Get().AbsPath(path + "/group").DoRaw(ctx)
		return strings.Contains(string(raw), `"priority":0`), err
	})
	if err != nil {
		t.Errorf("the scheduler does not fill in the priority of a PodGroup: %v", err)
	}
}

func TestUpWithNativeWorkloadAPI(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	p := startCommand(t, "up", "--native-workload-api", "--nodes=0", "--scheduler=none", "--kubeconfig="+kubeconfig, "--bin-dir="+controlPlane(t))
	p.waitReady(t)
	client := newClient(t, kubeconfig)
	groups := client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault)
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "group"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	group.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	created, err := groups.Create(t.Context(), group, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.Spec.Priority == nil || created.Spec.DisruptionMode == nil {
		t.Errorf("the PodGroup has %+v, want a priority and a disruption mode", created.Spec)
	}
	pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "member"},
		Spec: corev1.PodSpec{
			SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")},
			Containers:      []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.SchedulingGroup == nil {
		t.Error("the pod has lost its scheduling group")
	}
	// A finalizer keeps a deleted PodGroup until no pod names it.
	if err := groups.Delete(t.Context(), "group", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), "member", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		_, err := groups.Get(ctx, "group", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Errorf("the deleted PodGroup does not go: %v", err)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.waitExit(t); code != 0 {
		t.Errorf("exit code %d, want 0; standard error:\n%s", code, p.stderr)
	}
}

func TestUpIsInterruptedEarly(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	p := upWithoutScheduler(t, kubeconfig)
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(context.Context) (bool, error) {
		return strings.Contains(p.stderr.String(), playground.Etcd), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.waitExit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if !strings.HasSuffix(p.stderr.String(), "playground: interrupted before it was ready\n") {
		t.Errorf("standard error:\n%s", p.stderr)
	}
	requireEmpty(t, p.temporary)
	requireAbsent(t, kubeconfig)
}

func TestBadInputIsOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	podFile := filepath.Join(dir, "pod.yaml")
	if err := os.WriteFile(podFile, []byte("kind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken+schedulerSuffix, []byte("kind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const missing = "no such file or directory"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown command":     {[]string{"down"}, `unknown command or argument "down"`},
		"unknown flag":        {[]string{"up", "--notes=8"}, "unknown flag: --notes"},
		"argument":            {[]string{"up", "8"}, `unknown command or argument "8"`},
		"no number":           {[]string{"up", "--nodes=many"}, `invalid argument "many" for "--nodes"`},
		"negative nodes":      {[]string{"up", "--nodes=-1", "--kubeconfig=" + kubeconfig}, "--nodes is -1"},
		"no kubeconfig":       {[]string{"up"}, "--kubeconfig is required"},
		"bad resources":       {[]string{"up", "--kubeconfig=" + kubeconfig, "--node-resources=cpu=64,memory=lots"}, `--node-resources: bad node resource "memory=lots"`},
		"missing binary":      {[]string{"up", "--kubeconfig=" + kubeconfig, "--bin-dir=" + dir}, "the binary etcd is not in " + dir + "; `make build` makes it"},
		"no scheduler binary": {[]string{"up", "--kubeconfig=" + kubeconfig, "--bin-dir=" + controlPlane(t), "--scheduler=" + podFile}, podFile + " is not an executable file"},
		"no kubeconfig place": {[]string{"up", "--kubeconfig=" + dir + "/none/kubeconfig"}, missing},
		"scheduler's in use":  {[]string{"up", "--kubeconfig=" + taken, "--scheduler=none"}, taken + ".scheduler exists already"},
		"kubeconfig in use":   {[]string{"up", "--kubeconfig=" + podFile}, podFile + " exists already"},
		"no scheduler config": {[]string{"up", "--kubeconfig=" + kubeconfig, "--scheduler-config=" + dir + "/none"}, missing},
		"other config":        {[]string{"up", "--kubeconfig=" + kubeconfig, "--scheduler-config=" + podFile}, `its kind is "Pod"`},
		"config for nobody":   {[]string{"up", "--kubeconfig=" + kubeconfig, "--scheduler=none", "--scheduler-config=" + podFile}, "no scheduler is to be run"},
		"data dir is a file":  {[]string{"up", "--kubeconfig=" + kubeconfig, "--scheduler=none", "--bin-dir=" + controlPlane(t), "--data-dir=" + podFile}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startCommand(t, test.args...)
			if code := p.waitExit(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			got := p.stderr.String()
			if !strings.HasPrefix(got, "playground: ") || strings.Count(got, "\n") != 1 || !strings.Contains(got, test.want) {
				t.Errorf("standard error is %q, want one line with %q", got, test.want)
			}
			if got := p.stdout.String(); got != "" {
				t.Errorf("standard output is %q", got)
			}
			requireEmpty(t, p.temporary)
		})
	}
}

// TestBadSchedulerConfig checks the output for a configuration with a mistake that only the
// scheduler finds. The last line must be the message of the scheduler.
func TestBadSchedulerConfig(t *testing.T) {
	t.Parallel()
	binDir := playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
	dir := t.TempDir()
	config := filepath.Join(dir, "scheduler.yaml")
	content := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: x\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	p := startCommand(t, "up", "--nodes=0", "--kubeconfig="+kubeconfig, "--bin-dir="+binDir, "--scheduler-config="+config)
	if code := p.waitExit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	_, message, found := strings.Cut(p.stderr.String(), "\nplayground: ")
	if !found || strings.Count(message, "\n") != 1 || !strings.Contains(message, "reprieve-scheduler: configuration "+config+": ") || !strings.Contains(message, `unknown field "profile"`) {
		t.Errorf("standard error:\n%s\nwant one line of the playground's that has the scheduler's", p.stderr)
	}
	if got := p.stdout.String(); got != "" {
		t.Errorf("standard output is %q", got)
	}
	requireEmpty(t, p.temporary)
	requireAbsent(t, kubeconfig)
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--help"}, {"up", "--help"}} {
		p := startCommand(t, args...)
		if code := p.waitExit(t); code != 0 || !strings.Contains(p.stdout.String(), "Usage:") || p.stderr.String() != "" {
			t.Errorf("%q: exit code %d, standard error %q, standard output %q", args, code, p.stderr, p.stdout)
		}
	}
}
