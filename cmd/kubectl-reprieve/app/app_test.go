package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
)

// cluster is a snapshot of a cluster with one node of 4 GPUs, all used by a pod of priority 10.
const cluster = `{"apiVersion":"snapshot.reprieve.dev/v2","kind":"ClusterSnapshot","taken":"2026-03-01T12:00:00Z",
"roots":[{"apiVersion":"batch/v1","kind":"Job","resource":"jobs"},
{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","resource":"jobsets","trouble":"you may not list jobsets.jobset.x-k8s.io"},
{"apiVersion":"leaderworkerset.x-k8s.io/v1","kind":"LeaderWorkerSet","resource":"leaderworkersets"}],
"counts":{"namespaces":1,"nodes":1,"pods":1,"priorityclasses":1},
"objects":{
"namespaces":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","uid":"ns"}}],
"nodes":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a","uid":"n"},"status":{"allocatable":{"cpu":"8","memory":"64Gi","pods":"110","nvidia.com/gpu":"4"},"capacity":{"cpu":"8","memory":"64Gi","pods":"110","nvidia.com/gpu":"4"}}}],
"pods":[{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"old","uid":"p"},"spec":{"nodeName":"node-a","schedulerName":"reprieve-scheduler","priority":10,"containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"4"},"limits":{"nvidia.com/gpu":"4"}}}]},"status":{"phase":"Running","startTime":"2026-03-01T10:00:00Z"}}],
"priorityclasses":[{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high","uid":"c"},"value":100}]}}`

// job is the manifest of a Job that requests 4 GPUs at priority 0.
const job = `apiVersion: batch/v1
kind: Job
metadata: {name: new}
spec:
  template:
    spec:
      schedulerName: reprieve-scheduler
      restartPolicy: Never
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]
`

// run runs the command with a working directory that contains the given files. input is the
// standard input.
func run(t *testing.T, files map[string]string, input string, args ...string) (code int, out, errOut string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range args {
			if args[i] == name {
				args[i] = path
			}
		}
	}
	// The kubeconfig of this machine must not affect the test.
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--kubeconfig", kubeconfig)
	var stdout, stderr bytes.Buffer
	code = app.Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(input), Out: &stdout, ErrOut: &stderr}, args,
		func(string) (string, bool) { return "", false })
	return code, stdout.String(), strings.ReplaceAll(stderr.String(), dir+string(filepath.Separator), "")
}

// TestMain sorts the flags of the process before the tests. Each command reads these flags, and
// pflag sorts them at the first read. Parallel tests would otherwise race to sort them.
func TestMain(m *testing.M) {
	pflag.CommandLine.VisitAll(func(*pflag.Flag) {})
	os.Exit(m.Run())
}

func TestCommand(t *testing.T) {
	t.Parallel()
	older := strings.Replace(cluster, "snapshot.reprieve.dev/v2", "snapshot.reprieve.dev/v1", 1)
	unread := strings.Replace(cluster, `"trouble":`, `"forbidden":true,"trouble":`, 1)
	gang := strings.Replace(job, "{name: new}", `{name: new, annotations: {reprieve.dev/gang: "true"}}`, 1)
	gang = strings.Replace(gang, "spec:\n", "spec:\n  parallelism: 2\n", 1)
	files := map[string]string{
		"cluster.json": cluster, "older.json": older, "unread.json": unread, "job.yaml": job, "cut.json": cluster[:200], "gang.yaml": gang,
		"wrong.yaml": strings.Replace(gang, `"true"`, `"yes"`, 1), "spark.yaml": "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: pi}\n",
	}
	for name, c := range map[string]struct {
		args  []string
		input string
		want  int
		// wantOut are texts that the output must contain. wantErr is a text that the line with the
		// error must contain.
		wantOut []string
		wantErr string
	}{
		"work that finds no room": {
			args: []string{"plan", "-f", "job.yaml", "--snapshot", "cluster.json"}, want: 6,
			wantOut: []string{"job/new (default)", "Infeasible", "0/1", "no node has them"},
		},
		"work that takes room, and what that costs": {
			args: []string{"plan", "-f", "job.yaml", "--snapshot", "cluster.json", "--set-priority", "high"}, want: 0,
			wantOut: []string{"Preempts", "1/1", "1 pod", "8.0", "node-a", "pod default/old: priority 10, rule LowerPriority"},
		},
		"a manifest and a snapshot from standard input and a file": {
			args: []string{"plan", "-f", "-", "--snapshot", "cluster.json", "--set-priority", "100"}, input: job, want: 0, wantOut: []string{"Preempts"},
		},
		"in JSON": {
			args: []string{"plan", "-f", "job.yaml", "--snapshot", "cluster.json", "--set-priority", "100", "-o", "json"}, want: 0,
			wantOut: []string{`"apiVersion": "cli.reprieve.dev/v1"`, `"outcome": "Preempts"`, `"gpuHours": 8`, `"taken": "2026-03-01T12:00:00Z"`},
		},
		"a gang for which no PodGroup is written": {
			args: []string{"plan", "-f", "gang.yaml", "--snapshot", "cluster.json", "--set-priority", "high"}, want: 6,
			wantOut: []string{"job/new (default)   Infeasible   0/2", "on 2 nodes"},
		},
		"a gang of two with room for one, made smaller": {
			args: []string{"plan", "-f", "gang.yaml", "--snapshot", "cluster.json", "--set-priority", "high", "--replicas", "1"}, want: 0,
			wantOut: []string{"job/new (default)   Preempts   1/1"},
		},
		"a gang, by an older snapshot": {
			args: []string{"plan", "-f", "gang.yaml", "--snapshot", "older.json", "--set-priority", "high"}, want: 6,
			wantOut: []string{"1 Preempts, 1 Infeasible"}, wantErr: "note: the snapshot is of an older version",
		},
		"a gang that is asked for in other words": {
			args: []string{"plan", "-f", "wrong.yaml", "--snapshot", "cluster.json"}, want: 6, wantOut: []string{"Held", `the annotation reprieve.dev/gang is "yes"`},
		},
		"rights that few answers need": {
			args: []string{"plan", "-f", "gang.yaml", "--snapshot", "unread.json"}, want: 6, wantOut: []string{"Infeasible"},
			wantErr: "note: you may not list jobsets.jobset.x-k8s.io in all namespaces",
		},
		"what makes pods that are not known": {
			args: []string{"plan", "-f", "spark.yaml", "--snapshot", "cluster.json"}, want: 0, wantOut: []string{"Nothing that was given makes pods", "Not planned: SparkApplication/pi: the Spark operator"},
		},
		"in YAML": {
			args: []string{"plan", "-f", "job.yaml", "--snapshot", "cluster.json", "-o", "yaml"}, want: 6, wantOut: []string{"kind: Plan", "outcome: Infeasible"},
		},
		"nothing to plan":           {args: []string{"plan", "--snapshot", "cluster.json"}, want: 2, wantErr: "plan what?"},
		"a manifest that is not":    {args: []string{"plan", "-f", "no.yaml", "--snapshot", "cluster.json"}, want: 2, wantErr: "no.yaml"},
		"a manifest with a mistake": {args: []string{"plan", "-f", "-", "--snapshot", "cluster.json"}, input: "kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {contaners: []}\n", want: 2, wantErr: `unknown field "spec.contaners"`},
		"a snapshot that is cut":    {args: []string{"plan", "-f", "job.yaml", "--snapshot", "cut.json"}, want: 2, wantErr: "cut.json: the snapshot is cut off"},
		"a snapshot that is none":   {args: []string{"plan", "-f", "job.yaml", "--snapshot", "job.yaml"}, want: 2, wantErr: "no JSON"},
		"a configuration that is not": {
			args: []string{"plan", "-f", "job.yaml", "--snapshot", "cluster.json", "--config", "job.yaml"}, want: 2, wantErr: "not a KubeSchedulerConfiguration",
		},
		"a command that there is not": {args: []string{"wy"}, want: 2, wantErr: `unknown command "wy"; did you mean ui or why?; see kubectl reprieve --help`},
		"one with flags":              {args: []string{"plam", "-f", "job.yaml"}, want: 2, wantErr: `unknown command "plam"; did you mean plan?; see kubectl reprieve --help`},
		"no command":                  {wantOut: []string{"Exit codes: 0 answered"}},
		"a flag that there is not":    {args: []string{"plan", "--loud"}, want: 2, wantErr: "unknown flag: --loud; see kubectl reprieve plan --help"},
		"a format that there is not":  {args: []string{"plan", "-o", "csv"}, want: 2, wantErr: "it is one of table, wide, json, yaml"},
		"the version":                 {args: []string{"--version"}, want: 0, wantOut: []string{"Reprieve ", ", Kubernetes v"}},
		"the version, asked below":    {args: []string{"plan", "--version"}, want: 0, wantOut: []string{"Reprieve ", ", Kubernetes v"}},
		"a cluster that is not":       {args: []string{"plan", "-f", "job.yaml", "--server", "https://127.0.0.1:1"}, want: 5, wantErr: "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, files, c.input, c.args...)
			if code != c.want {
				t.Errorf("exit code %d, want %d; it said %q, %q", code, c.want, out, errOut)
			}
			for _, words := range c.wantOut {
				if !strings.Contains(out, words) {
					t.Errorf("The answer has no %q:\n%s", words, out)
				}
			}
			if !strings.Contains(errOut, c.wantErr) || c.wantErr == "" && errOut != "" || strings.Count(errOut, "\n") > 1 {
				t.Errorf("It says %q, want one line with %q", errOut, c.wantErr)
			}
			if strings.Contains(out, "\x1b") {
				t.Error("There are colours on what is no terminal")
			}
		})
	}
}

// TestAnswersAreTheSameEachTime checks that two runs with the same snapshot and input give the same
// bytes.
func TestAnswersAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	files := map[string]string{"cluster.json": cluster, "job.yaml": job}
	args := func() []string {
		return []string{"plan", "-f", "job.yaml", "--snapshot", "cluster.json", "--set-priority", "high", "-o", "json"}
	}
	_, first, _ := run(t, files, "", args()...)
	if _, again, _ := run(t, files, "", args()...); again != first {
		t.Errorf("It answers\n%s\nand answered\n%s", again, first)
	}
	if !json.Valid([]byte(first)) {
		t.Errorf("The answer is no JSON: %s", first)
	}
}

// TestSnapshotOfASnapshot checks that the command snapshot copies a snapshot file unchanged. With
// --redact, the copy must be marked as redacted.
func TestSnapshotOfASnapshot(t *testing.T) {
	t.Parallel()
	_, first, _ := run(t, map[string]string{"cluster.json": cluster}, "", "snapshot", "--snapshot", "cluster.json")
	code, again, errOut := run(t, map[string]string{"cluster.json": first}, "", "snapshot", "--snapshot", "cluster.json")
	if code != 0 || again != first {
		t.Errorf("exit code %d, %s; it is written as\n%s\nand was\n%s", code, errOut, again, first)
	}
	if code, redacted, _ := run(t, map[string]string{"cluster.json": first}, "", "snapshot", "--redact", "--snapshot", "cluster.json"); code != 0 || !strings.Contains(redacted, `"redacted":true`) {
		t.Errorf("exit code %d: %s", code, redacted)
	}
}
