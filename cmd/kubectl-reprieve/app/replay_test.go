package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// written returns the decision log of a scheduler in the cluster of testdata. The log has two
// decisions. The first is for the gang train. The second, a minute later, is for an urgent pod,
// which preempts the gang batch.
func written(t *testing.T) string {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	objects, err := inventory.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	first := decisionlog.Inputs{
		Schema: decisionlog.InputsSchema, Time: objects.Taken, Process: "reprieve-scheduler-7d4f_1c9e", Number: 1,
		Whole: &decisionlog.Whole{}, Objects: make(map[string][]json.RawMessage),
	}
	for _, kind := range inventory.Kinds() {
		name := inventory.NameOf(kind.GroupVersionResource)
		for _, object := range objects.Objects(name) {
			first.Objects[name] = append(first.Objects[name], object.Raw)
		}
	}
	write := func(in *decisionlog.Inputs) {
		if err := decisionlog.EncodeInputs(&out, in); err != nil {
			t.Fatal(err)
		}
	}
	write(&first)
	log := decisionlog.New(decisionlog.Options{Process: first.Process})
	decideAndRecord(t, log, objects, "train-0", 1)

	asks := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
	urgent := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "urgent", UID: "pod-urgent", CreationTimestamp: metav1.NewTime(objects.Taken.Add(time.Minute)),
			Labels: map[string]string{"reprieve.dev/queue": "team-a"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "reprieve-scheduler", Priority: ptr.To(int32(1000)), RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: asks, Limits: asks}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	raw, err := json.Marshal(urgent)
	if err != nil {
		t.Fatal(err)
	}
	later := objects.Taken.Add(time.Minute)
	write(&decisionlog.Inputs{
		Schema: decisionlog.InputsSchema, Time: later, Process: first.Process, Number: 2, From: 1,
		Objects: map[string][]json.RawMessage{inventory.Pods: {raw}},
	})
	if objects, err = objects.At(later).With(inventory.Change{Resource: inventory.Pods, Object: urgent}); err != nil {
		t.Fatal(err)
	}
	decideAndRecord(t, log, objects, "urgent", 2)
	for _, r := range log.Latest() {
		if err := decisionlog.Encode(&out, &r); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// decideAndRecord makes the scheduler's decision for the workload of a pod, and writes it to a log.
func decideAndRecord(t *testing.T, log *decisionlog.Log, objects *inventory.Inventory, pod string, inputs uint64) {
	t.Helper()
	cfg, err := schedulerapp.LoadConfig(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := whatif.New(t.Context(), objects, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	preview, err := cluster.Preview(t.Context(), types.NamespacedName{Namespace: "default", Name: pod})
	if err != nil || preview.Decision == nil {
		t.Fatalf("%v: %+v", err, preview.Held)
	}
	r := decisionlog.Record{
		Time: objects.Taken, Inputs: inputs, Profile: "reprieve-scheduler", Decision: *preview.Decision, Result: decisionlog.Result{State: decisionlog.Waiting},
	}
	if len(preview.Victims) > 0 {
		r.Result = decisionlog.Result{State: decisionlog.CarriedOut, Time: objects.Taken.Add(time.Second)}
	}
	log.Record(r)
}

// TestLogOfTestdata checks that the log in testdata is up to date: a scheduler in the cluster of
// testdata would write the same text.
func TestLogOfTestdata(t *testing.T) {
	t.Parallel()
	file, got := filepath.Join("testdata", "decisions.jsonl"), written(t)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("It is now\n%s\nand was\n%s", got, want)
	}
}

// TestReplay checks the output of replay. For each kind of invalid input, it checks the message.
func TestReplay(t *testing.T) {
	t.Parallel()
	log := written(t)
	lines := strings.SplitAfter(log, "\n")
	next, err := os.ReadFile(filepath.Join("testdata", "next.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := os.ReadFile(filepath.Join("testdata", "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"log.jsonl": log, "next.yaml": string(next), "cluster.json": string(snapshot), "empty.jsonl": "", "job.yaml": job,
		"cut.jsonl": log + lines[0][:100], "plain.jsonl": decided(t), "gap.jsonl": lines[0] + lines[2] + lines[3], "late.jsonl": lines[1] + lines[2] + lines[3],
		"inputs.jsonl": lines[0] + lines[1], "v2.jsonl": strings.ReplaceAll(log, "/v1", "/v2"), "mixed.jsonl": log + strings.ReplaceAll(lines[2], "/v1", "/v2"),
		"turned.jsonl": lines[3] + lines[1] + lines[2] + lines[0] + lines[0], "old.jsonl": strings.ReplaceAll(lines[2], `"inputs":1,`, ""),
	}
	for name, c := range map[string]struct {
		args, wantOut []string
		input         string
		want          int
		wantErr       string
	}{
		"the same version":          {args: []string{"log.jsonl"}, wantOut: []string{"podgroup default/train", "pod default/urgent", "Preempts: default/batch", "2 decisions: 2 same, 0 differ, 0 unknown"}},
		"from standard input":       {args: []string{"-"}, input: log, wantOut: []string{"2 decisions: 2 same"}},
		"with nodes":                {args: []string{"log.jsonl", "-o", "wide"}, wantOut: []string{"NODES THEN", "node-a"}},
		"in any order, and twice":   {args: []string{"turned.jsonl", "log.jsonl"}, wantOut: []string{"2 decisions: 2 same"}},
		"another configuration":     {args: []string{"log.jsonl", "--config", "next.yaml"}, wantOut: []string{"differs", "other victims", "1 same, 1 differ, 0 unknown"}},
		"in JSON":                   {args: []string{"log.jsonl", "--config", "next.yaml", "--differing", "-o", "json"}, wantOut: []string{`"kind": "Replay"`, `"differs": 1`, `"state": "Differs"`}},
		"a file that is cut":        {args: []string{"cut.jsonl"}, wantOut: []string{"1 broken line skipped; the first is cut.jsonl, line 5: ", "2 same"}},
		"some lines of another":     {args: []string{"mixed.jsonl"}, wantOut: []string{`1 broken line skipped`, `"reprieve.dev/decision/v2"`, "2 same"}},
		"a line that is missing":    {args: []string{"gap.jsonl"}, wantOut: []string{"1 same, 0 differ, 1 unknown", "the log has no line for the cluster that it went by"}},
		"no whole cluster":          {args: []string{"late.jsonl"}, wantOut: []string{"0 same, 0 differ, 2 unknown"}},
		"on a snapshot":             {args: []string{"old.jsonl", "--snapshot", "cluster.json"}, wantOut: []string{"1 decision: 1 same"}},
		"on a snapshot without it":  {args: []string{"plain.jsonl", "--snapshot", "cluster.json"}, wantOut: []string{"is not among the objects", "2 unknown"}},
		"nothing":                   {want: 2, wantErr: "replay needs the files"},
		"no such file":              {args: []string{"no.jsonl"}, want: 2, wantErr: "no.jsonl"},
		"an empty file":             {args: []string{"empty.jsonl"}, want: 2, wantErr: "empty.jsonl is empty; a file of the scheduler's --decision-log is needed"},
		"another file":              {args: []string{"job.yaml"}, want: 2, wantErr: "job.yaml has no decision in it (the first line"},
		"another version":           {args: []string{"v2.jsonl"}, want: 2, wantErr: `its schema is "reprieve.dev/inputs/v2", and "reprieve.dev/decision/v1" is known`},
		"a log without clusters":    {args: []string{"plain.jsonl"}, want: 2, wantErr: "run the scheduler with --decision-log-inputs=redacted"},
		"a log without decisions":   {args: []string{"inputs.jsonl"}, want: 2, wantErr: "has no decision in it"},
		"a configuration that's no": {args: []string{"log.jsonl", "--config", "job.yaml"}, want: 2, wantErr: "not a KubeSchedulerConfiguration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, files, c.input, append([]string{"replay"}, c.args...)...)
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
		})
	}
}
