package command

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

const schedulerBinary = "reprieve-scheduler"

// startLimit is the timeout of a run. The scheduler itself waits for an API server for a much
// shorter time.
const startLimit = 45 * time.Second

// result has the exit code and the output of a run.
type result struct {
	exit   int
	stdout string
	stderr string
}

func runScheduler(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(playgroundtest.BinDir(t, schedulerBinary), schedulerBinary), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// The environment has no service account and no kubeconfig, so the scheduler finds no cluster
	// by default.
	cmd.Env = []string{"HOME=" + t.TempDir()}
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("reprieve-scheduler %q did not end within %s; it said:\n%s", args, startLimit, stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run reprieve-scheduler %q: %v", args, err)
	}
	return result{exit: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// wantOneLine checks that the run failed, and printed exactly one line of its own that contains
// each text in want. Libraries may log other lines.
func wantOneLine(t *testing.T, got result, want ...string) {
	t.Helper()
	if got.exit == 0 {
		t.Errorf("exit code 0, want another; stderr:\n%s", got.stderr)
	}
	var own []string
	for line := range strings.Lines(got.stderr) {
		if strings.HasPrefix(line, schedulerBinary+":") {
			own = append(own, line)
		}
		if strings.HasPrefix(line, "goroutine ") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "Usage:") {
			t.Errorf("stderr has a stack trace or the usage:\n%s", got.stderr)
		}
	}
	if len(own) != 1 || !strings.HasSuffix(strings.TrimSpace(got.stderr), strings.TrimSpace(own[0])) {
		t.Fatalf("want one line of the command's own, at the end; stderr:\n%s", got.stderr)
	}
	for _, w := range want {
		if !strings.Contains(own[0], w) {
			t.Errorf("the line does not say %q: %s", w, own[0])
		}
	}
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubeconfigFor writes a kubeconfig for a server at an address, and returns its path.
func kubeconfigFor(t *testing.T, address string) string {
	t.Helper()
	return writeFile(t, `{apiVersion: v1, kind: Config, current-context: a,
  clusters: [{name: a, cluster: {server: "https://`+address+`"}}], users: [{name: a, user: {}}],
  contexts: [{name: a, context: {cluster: a, user: a}}]}`)
}

const (
	configHead = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

	// These are the settings that each profile needs.
	pluginOn = "multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}"
	orderOn  = "queueSort: {enabled: [{name: ReprievePrioritySort}], disabled: [{name: PrioritySort}]}"
	firstOn  = "preFilter: {enabled: [{name: Reprieve}]}"

	soundProfiles = "profiles: [{schedulerName: a, plugins: {" + pluginOn + ", " + orderOn + ", " + firstOn + "}}]\n"
)

// TestBadInput tests errors in flags and configuration files that the scheduler detects without an
// API server.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args func(t *testing.T) []string
		want []string
	}{
		"unknown flag": {
			args: func(*testing.T) []string { return []string{"--frobnicate"} },
			want: []string{"unknown flag: --frobnicate", "--help"},
		},
		"argument": {
			args: func(*testing.T) []string { return []string{"now"} },
			want: []string{`takes no arguments, got ["now"]`},
		},
		"configuration that does not exist": {
			args: func(*testing.T) []string { return []string{"--config", "no-such-file.yaml"} },
			want: []string{"configuration no-such-file.yaml", "no such file"},
		},
		"configuration that is no YAML": {
			args: func(t *testing.T) []string { return []string{"--config", writeFile(t, "a: [")} },
			want: []string{"configuration ", "yaml: line 1"},
		},
		"configuration with an unknown field": {
			args: func(t *testing.T) []string { return []string{"--config", writeFile(t, configHead+"profile: x\n")} },
			want: []string{`unknown field "profile"`},
		},
		"configuration with an invalid value": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+soundProfiles+"parallelism: -1\n")}
			},
			want: []string{"parallelism", "-1"},
		},
		"two profiles of one name": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+"profiles: [{schedulerName: a}, {schedulerName: a}]\n")}
			},
			want: []string{`profiles[1].schedulerName: profiles[0] is named "a" already`},
		},
		"profiles that order the queue differently": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+"profiles: [{schedulerName: a, plugins: {"+pluginOn+", "+orderOn+", "+firstOn+"}}, {schedulerName: b}]\n")}
			},
			want: []string{"profile b", "profiles[1].plugins.queueSort", "in all profiles"},
		},
		"several mistakes": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+soundProfiles+"parallelism: -1\npodInitialBackoffSeconds: -1\n")}
			},
			want: []string{"configuration ", "file.yaml: ", "parallelism", "; podInitialBackoffSeconds"},
		},
		"standby that knows nothing": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+soundProfiles+"delayCacheUntilActive: true\n")}
			},
			want: []string{"configuration ", "file.yaml: delayCacheUntilActive: ", "leave it out"},
		},
		"kubeconfig that is empty": {
			args: func(t *testing.T) []string { return []string{"--kubeconfig", writeFile(t, "")} },
			want: []string{"kubeconfig ", "file.yaml: it names no cluster"},
		},
		"empty configuration": {
			args: func(t *testing.T) []string { return []string{"--config", writeFile(t, "")} },
			want: []string{"configuration ", "it does not say what it is; begin with the lines apiVersion: kubescheduler.config.k8s.io/v1"},
		},
		"configuration without a kind": {
			args: func(t *testing.T) []string { return []string{"--config", writeFile(t, "profiles: []\n")} },
			want: []string{"it does not say what it is"},
		},
		"kubeconfig beside a configuration without one": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+soundProfiles), "--kubeconfig", "K"}
			},
			want: []string{"--kubeconfig is not read beside --config; write clientConnection: {kubeconfig: K} in ", "file.yaml"},
		},
		"profile with the order of upstream": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+"profiles: [{schedulerName: a, plugins: {"+pluginOn+", "+firstOn+"}}]\n")}
			},
			want: []string{"profile a", "profiles[0].plugins.queueSort", "enabled: [{name: ReprievePrioritySort}]"},
		},
		"profile with Reprieve last": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+"profiles: [{schedulerName: a, plugins: {"+pluginOn+", "+orderOn+"}}]\n")}
			},
			want: []string{"profile a", "profiles[0].plugins.preFilter", "write preFilter: {enabled: [{name: Reprieve}]}"},
		},
		"profile in which nothing preempts": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+"profiles: [{schedulerName: a, plugins: {"+pluginOn+", "+orderOn+", "+firstOn+"}}, "+
					"{schedulerName: b, plugins: {"+orderOn+", postFilter: {disabled: [{name: '*'}]}}}]\n")}
			},
			want: []string{"profile b", "profiles[1] has neither Reprieve nor DefaultPreemption"},
		},
		"profile with upstream's preemption": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+"profiles: [{schedulerName: a, plugins: {"+orderOn+"}}, {schedulerName: b, plugins: {multiPoint: {enabled: [{name: Reprieve}]}, "+orderOn+"}}]\n")}
			},
			want: []string{"profile b", "profiles[1].plugins.multiPoint", "disabled: [{name: DefaultPreemption}]"},
		},
		"configuration without the plugin": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead+"profiles: [{schedulerName: a}]\n"), "--kubeconfig", kubeconfigFor(t, "127.0.0.1:1")}
			},
			want: []string{"no profile has the plugin Reprieve", "profiles[0]"},
		},
		"configuration without a profile": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead), "--kubeconfig", kubeconfigFor(t, "127.0.0.1:1")}
			},
			want: []string{"no profile has the plugin Reprieve"},
		},
		"configuration and scheduler name": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, configHead), "--scheduler-name", "other"}
			},
			want: []string{"--scheduler-name", "--config"},
		},
		"kubeconfig that does not exist": {
			args: func(*testing.T) []string { return []string{"--kubeconfig", "no-such-file"} },
			want: []string{"kubeconfig", "no-such-file", "no such file"},
		},
		"kubeconfig that points nowhere": {
			args: func(t *testing.T) []string {
				return []string{"--kubeconfig", kubeconfigFor(t, "127.0.0.1:1")}
			},
			want: []string{"cannot reach the API server at https://127.0.0.1:1", "connection refused"},
		},
		"API server that does not answer": {
			args: func(t *testing.T) []string {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = listener.Close() })
				return []string{"--kubeconfig", kubeconfigFor(t, listener.Addr().String())}
			},
			want: []string{"cannot reach the API server at https://127.0.0.1:", "imeout"},
		},
		"flag out of range": {
			args: func(t *testing.T) []string {
				return []string{"--kubeconfig", kubeconfigFor(t, "127.0.0.1:1"), "--secure-port", "99999"}
			},
			want: []string{"secure-port 99999", "65535"},
		},
		"kubeconfig that is none": {
			args: func(t *testing.T) []string { return []string{"--kubeconfig", writeFile(t, "a: [")} },
			want: []string{"kubeconfig", "file.yaml", "yaml: line 1"},
		},
		"configuration of another kind": {
			args: func(t *testing.T) []string {
				return []string{"--config", writeFile(t, "apiVersion: v1\nkind: Pod\n")}
			},
			want: []string{"configuration ", "it is not a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1"},
		},
		"configuration that is a folder": {
			args: func(t *testing.T) []string { return []string{"--config", t.TempDir()} },
			want: []string{"configuration ", "is a directory"},
		},
		"decision log in a directory that does not exist": {
			args: func(t *testing.T) []string {
				return []string{"--kubeconfig", kubeconfigFor(t, "127.0.0.1:1"), "--decision-log", "no-such-directory/log"}
			},
			want: []string{"--decision-log no-such-directory/log: no such file or directory; name a file"},
		},
		"decision log of no size": {
			args: func(t *testing.T) []string {
				return []string{"--kubeconfig", kubeconfigFor(t, "127.0.0.1:1"), "--decision-log", "-", "--decision-log-maxsize", "0"}
			},
			want: []string{"--decision-log-maxsize is 0 megabytes; it has to be at least 1"},
		},
		"no kubeconfig outside a cluster": {
			args: func(*testing.T) []string { return nil },
			want: []string{"no kubeconfig", "--kubeconfig", "clientConnection.kubeconfig"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantOneLine(t, runScheduler(t, tc.args(t)...), tc.want...)
		})
	}
}

func TestVersion(t *testing.T) {
	got := runScheduler(t, "--version")
	if got.exit != 0 || !strings.HasPrefix(got.stdout, "Reprieve ") || !strings.Contains(got.stdout, "Kubernetes v") {
		t.Errorf("--version: exit code %d, stdout %q, stderr %q", got.exit, got.stdout, got.stderr)
	}
}

// TestBadCluster tests errors that the scheduler can detect only with an API server.
func TestBadCluster(t *testing.T) {
	p := playgroundtest.Start(t, playground.Options{Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler}})
	admin := []string{"--kubeconfig", p.Kubeconfig(), "--bind-address", "127.0.0.1"}

	t.Run("missing CRDs", func(t *testing.T) {
		got := runScheduler(t, append(admin, "--secure-port", "0")...)
		wantOneLine(t, got, "podgroups.reprieve.dev", "queues.reprieve.dev", "workloads.reprieve.dev", "kubectl apply")
	})
	if err := p.Apply(t.Context(), os.DirFS(filepath.Join(playgroundtest.ModuleRoot(t), "deploy", "crds"))); err != nil {
		t.Fatal(err)
	}
	t.Run("port taken", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		wantOneLine(t, runScheduler(t, append(admin, "--secure-port", port)...), port, "address already in use")
	})
	t.Run("unknown plugin", func(t *testing.T) {
		config := writeFile(t, configHead+"clientConnection: {kubeconfig: "+p.Kubeconfig()+"}\n"+
			"profiles: [{plugins: {multiPoint: {enabled: [{name: Reprieve}, {name: Frobnicate}], disabled: [{name: DefaultPreemption}]}, "+
			orderOn+", "+firstOn+"}}]\n")
		wantOneLine(t, runScheduler(t, "--config", config, "--secure-port", "0"), "Frobnicate")
	})
	for name, tc := range map[string]struct {
		args string
		want []string
	}{
		"unknown argument":      {"{gang: {timeout: 1s}}", []string{"profile second", "plugin Reprieve", `unknown field "gang.timeout"`}},
		"malformed duration":    {"{gang: {permitTimeout: soon}}", []string{"profile second", "gang.permitTimeout", `"soon"`}},
		"argument out of range": {"{gang: {permitTimeout: 1ms}}", []string{"profile second", "gang.permitTimeout", `"1ms"`}},
	} {
		t.Run(name, func(t *testing.T) {
			config := writeFile(t, configHead+"clientConnection: {kubeconfig: "+p.Kubeconfig()+"}\n"+
				"profiles: [{schedulerName: first, plugins: {"+orderOn+"}}, "+
				"{schedulerName: second, plugins: {"+pluginOn+", "+orderOn+", "+firstOn+"}, "+
				"pluginConfig: [{name: Reprieve, args: "+tc.args+"}]}]\n")
			wantOneLine(t, runScheduler(t, "--config", config, "--secure-port", "0"), tc.want...)
		})
	}
}
