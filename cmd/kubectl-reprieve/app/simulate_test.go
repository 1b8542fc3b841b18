package app_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSimulate checks the output of simulate. For each kind of invalid input, it checks the
// message.
func TestSimulate(t *testing.T) {
	t.Parallel()
	const kube = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: plain\n"
	const ours = kube + "  plugins: {multiPoint: {disabled: [{name: DefaultPreemption}], enabled: [{name: Reprieve}]}, queueSort: {enabled: [{name: ReprievePrioritySort}], disabled: [{name: PrioritySort}]}, preFilter: {enabled: [{name: Reprieve}]}}\n"
	files := map[string]string{
		"quiet.yaml":  ours + "  pluginConfig: [{name: Reprieve, args: {preemptMinRuntime: 24h, reclaimMinRuntime: 24h}}]\n",
		"prompt.yaml": ours, "single.yaml": ours + "  pluginConfig: [{name: Reprieve, args: {workloadAware: false}}]\n",
		"bad.yaml": "kind: Pod\n", "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "job.yaml": job, "plain.jsonl": decided(t), "cut.json": cluster[:100],
		"queues.yaml": "apiVersion: reprieve.dev/v1alpha1\nkind: Queue\nmetadata: {name: all}\nspec: {quota: {nvidia.com/gpu: 8}}\n---\n" +
			"apiVersion: reprieve.dev/v1alpha1\nkind: Queue\nmetadata: {name: research}\nspec: {parent: all, quota: {nvidia.com/gpu: 6}}\n---\n" +
			"apiVersion: reprieve.dev/v1alpha1\nkind: Queue\nmetadata: {name: service}\nspec: {parent: all, quota: {nvidia.com/gpu: 2}}\n",
	}
	for name, c := range map[string]struct {
		args             []string
		want             int
		wantOut, wantNot []string
		wantErr          string
	}{
		"all policies": {
			args:    []string{"--trace", "testdata/trace"},
			wantOut: []string{"4 nodes, 80 pods in ", "1 broken line skipped; the first is openb_pod_list_default.csv, line 43", "priority ", "queues ", "kube-scheduler ", "none ", "team-b"},
		},
		"some policies, from the list of pods": {
			args:    []string{"--trace", "testdata/trace/openb_pod_list_default.csv", "--policy", "none", "--policy", "queues", "--nodes", "3"},
			wantOut: []string{"3 nodes", "NONE", "QUEUES"}, wantNot: []string{"kube-scheduler"},
		},
		"configurations":            {args: []string{"--trace", "testdata/trace", "--config", "quiet.yaml", "--config", "prompt.yaml"}, wantOut: []string{"QUIET", "PROMPT"}},
		"no trace":                  {want: 2, wantErr: "simulate what?"},
		"a trace that is not":       {args: []string{"--trace", "testdata/none"}, want: 2, wantErr: "openb_node_list_gpu_node.csv"},
		"a list that is none":       {args: []string{"--trace", "testdata/trace/openb_node_list_gpu_node.csv"}, want: 2, wantErr: "no column"},
		"a policy that is not":      {args: []string{"--trace", "testdata/trace", "--policy", "random"}, want: 2, wantErr: "it is one of priority, lost-work, queues, kube-scheduler, none"},
		"policies and files":        {args: []string{"--trace", "testdata/trace", "--policy", "none", "--config", "quiet.yaml"}, wantOut: []string{"QUIET", "NONE"}, wantNot: []string{"kube-scheduler"}},
		"a file that is none":       {args: []string{"--trace", "testdata/trace", "--config", "bad.yaml"}, want: 2, wantErr: "bad.yaml"},
		"a profile pod by pod":      {args: []string{"--trace", "testdata/trace", "--config", "single.yaml"}, want: 2, wantErr: "workloadAware: false"},
		"no time":                   {args: []string{"--trace", "testdata/trace", "--span", "1s"}, want: 2, wantErr: "--span 1s: it is between"},
		"less than no work":         {args: []string{"--trace", "testdata/trace", "--load", "-1"}, want: 2, wantErr: "--load -1"},
		"less than no nodes":        {args: []string{"--trace", "testdata/trace", "--nodes", "-1"}, want: 2, wantErr: "--nodes -1"},
		"a grace period of nothing": {args: []string{"--trace", "testdata/trace", "--grace", "-1s"}, want: 2, wantErr: "not negative"},
		"a snapshot": {
			args:    []string{"--snapshot", "testdata/cluster.json"},
			wantOut: []string{"3 nodes, ", "Workloads: 2 run at the start, 1 wait then, 0 come later", "team-a", "KUBE-SCHEDULER"},
		},
		"a snapshot with a trace on top": {
			args:    []string{"--snapshot", "testdata/cluster.json", "--trace", "testdata/trace", "--policy", "queues"},
			wantOut: []string{"3 nodes, 86 pods in ", "1 broken line skipped", "team-b"},
		},
		"a log": {
			args:    []string{"--log", "testdata/decisions.jsonl"},
			wantOut: []string{"3 nodes, ", "Workloads: 2 run at the start, 1 wait then, 1 come later", "KUBE-SCHEDULER"},
		},
		"a log and a trace":       {args: []string{"--log", "testdata/decisions.jsonl", "--trace", "testdata/trace"}, want: 2, wantErr: "leave --trace and --snapshot out"},
		"a log and queues":        {args: []string{"--log", "testdata/decisions.jsonl", "--queues", "queues.yaml"}, want: 2, wantErr: "those of --log stay"},
		"a log without a cluster": {args: []string{"--log", "plain.jsonl"}, want: 2, wantErr: "--decision-log-inputs=redacted"},
		"a log that is none":      {args: []string{"--log", "job.yaml"}, want: 2, wantErr: "has no decision in it"},
		"queues of a file":        {args: []string{"--trace", "testdata/trace", "--policy", "queues", "--queues", "queues.yaml"}, wantOut: []string{"research", "service"}, wantNot: []string{"team-a"}},
		"queues that are none":    {args: []string{"--trace", "testdata/trace", "--queues", "pod.yaml"}, want: 2, wantErr: "it has a Pod; it is a file of Queues"},
		"queues that are not":     {args: []string{"--trace", "testdata/trace", "--queues", "no.yaml"}, want: 2, wantErr: "no.yaml"},
		"queues of a snapshot":    {args: []string{"--snapshot", "testdata/cluster.json", "--queues", "queues.yaml"}, want: 2, wantErr: "the queues of --snapshot are in it"},
		"nodes of a snapshot":     {args: []string{"--snapshot", "testdata/cluster.json", "--nodes", "2"}, want: 2, wantErr: "those of --snapshot stay"},
		"work that runs no time":  {args: []string{"--snapshot", "testdata/cluster.json", "--runs", "0s"}, want: 2, wantErr: "--runs 0s"},
		"a snapshot that is none": {args: []string{"--snapshot", "job.yaml"}, want: 2, wantErr: "no JSON"},
		"a snapshot that is cut":  {args: []string{"--snapshot", "cut.json"}, want: 2, wantErr: "cut.json: the snapshot is cut off"},
		"a snapshot that is not":  {args: []string{"--snapshot", "no.json"}, want: 2, wantErr: "no.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, files, "", append([]string{"simulate"}, c.args...)...)
			if code != c.want {
				t.Errorf("exit code %d, want %d; it said %q, %q", code, c.want, out, errOut)
			}
			checkWords(t, out, c.wantOut, c.wantNot)
			errOut = withoutProgress(errOut)
			if !strings.Contains(errOut, c.wantErr) || c.wantErr == "" && errOut != "" || strings.Count(errOut, "\n") > 1 {
				t.Errorf("It says %q, want one line with %q", errOut, c.wantErr)
			}
		})
	}
	t.Run("a plot", func(t *testing.T) {
		t.Parallel()
		to := filepath.Join(t.TempDir(), "waits.svg")
		code, out, errOut := run(t, files, "", "simulate", "--trace", "testdata/trace", "--policy", "none", "--policy", "queues", "--plot", to)
		drawn, err := os.ReadFile(to)
		if code != 0 || err != nil || withoutProgress(errOut) != "" || !strings.Contains(out, "QUEUES") {
			t.Fatalf("exit code %d, %v; it said %q", code, err, errOut)
		}
		for _, words := range []string{"<svg ", ">none</text>", ">queues</text>", "part that waited at most so long"} {
			if !strings.Contains(string(drawn), words) {
				t.Errorf("the plot has no %q", words)
			}
		}
		code, _, errOut = run(t, files, "", "simulate", "--trace", "testdata/trace", "--policy", "none", "--plot", "no/such/waits.svg")
		if code != 2 || !strings.Contains(errOut, "--plot: ") {
			t.Errorf("exit code %d, it said %q", code, errOut)
		}
	})
	t.Run("a min-runtime counts", func(t *testing.T) {
		t.Parallel()
		_, out, _ := run(t, files, "", "simulate", "--trace", "testdata/trace", "--nodes", "2", "--load", "3", "--config", "quiet.yaml", "--config", "prompt.yaml", "-o", "json")
		var answer struct{ Results []struct{ EvictedPods int } }
		if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Results) != 2 {
			t.Fatalf("%v: %s", err, out)
		}
		if quiet, prompt := answer.Results[0].EvictedPods, answer.Results[1].EvictedPods; quiet != 0 || prompt == 0 {
			t.Errorf("%d pods were evicted inside a min-runtime of a day, and %d without one", quiet, prompt)
		}
	})
	t.Run("the same each time", func(t *testing.T) {
		t.Parallel()
		seen := make(map[string]bool)
		for _, seed := range []string{"1", "2", "1"} {
			_, out, _ := run(t, files, "", "simulate", "--trace", "testdata/trace", "--seed", seed, "-o", "json")
			seen[out] = true
		}
		if len(seen) != 2 {
			t.Errorf("two seeds have %d answers", len(seen))
		}
	})
}

// withoutProgress removes the lines about the progress of a simulation. They appear only on a slow
// machine.
func withoutProgress(errOut string) string {
	return regexp.MustCompile(`(?m)^simulating .*\n`).ReplaceAllString(errOut, "")
}
