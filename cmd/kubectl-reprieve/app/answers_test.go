package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pods returns the snapshot [cluster] with two additions: running pods of the Deployment web, and
// the pending pod late, in JSON.
func pods(t *testing.T, running int, late string) string {
	t.Helper()
	var more []string
	for i := range running {
		more = append(more, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"web-5d9-%d","uid":"w%d","labels":{"pod-template-hash":"5d9"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d9","uid":"rs","controller":true}]},
"spec":{"nodeName":"node-a","schedulerName":"reprieve-scheduler","priority":5,"containers":[{"name":"c","resources":{"requests":{"cpu":"1m"}}}]},"status":{"phase":"Running","startTime":"2026-03-01T11:00:00Z"}}`, i, i))
	}
	if late != "" {
		more = append(more, late)
	}
	out := strings.Replace(cluster, `"pods":1,`, fmt.Sprintf(`"pods":%d,`, 1+len(more)), 1)
	return strings.Replace(out, `"startTime":"2026-03-01T10:00:00Z"}}`, `"startTime":"2026-03-01T10:00:00Z"}},`+strings.Join(more, ","), 1)
}

// latePod returns a pending pod that requests 4 GPUs. metadata and spec are additional JSON fields.
func latePod(priority int, metadata, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"late","uid":"late","creationTimestamp":"2026-03-01T11:30:00Z"%s},
"spec":{"schedulerName":"reprieve-scheduler","priority":%d%s,"containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"4"},"limits":{"nvidia.com/gpu":"4"}}}]},"status":{"phase":"Pending"}}`, metadata, priority, spec)
}

// TestAnswers checks parts of the output of several commands. Examples are long answers, misspelled
// names, and objects that already exist.
func TestAnswers(t *testing.T) {
	t.Parallel()
	many := pods(t, 188, latePod(0, "", ""))
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": job, "b.yml": strings.Replace(job, "{name: new}", "{name: newer}", 1), "notes.txt": "no manifest"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gated := strings.Replace(strings.Replace(latePod(0, "", `,"schedulingGates":[{"name":"wait"}]`), `"name":"late"`, `"name":"gated"`, 1), `"uid":"late"`, `"uid":"gated"`, 1)
	files := map[string]string{
		"many.json": many, "job.yaml": job, "late.json": pods(t, 0, latePod(0, "", "")), "high.json": pods(t, 0, latePod(100, "", "")),
		"gated.json":   pods(t, 0, latePod(0, "", "")+","+gated),
		"typo.json":    pods(t, 0, latePod(0, `,"labels":{"reprieve.dev/podgroup":"g","reprieve.dev/queue":"tem"},"annotations":{"reprieve.dev/gangs":"true"}`, "")),
		"typo.yaml":    strings.Replace(strings.Replace(job, "{name: new}", `{name: new, annotations: {reprieve.dev/gnag: "true"}}`, 1), "nvidia.com/gpu", "nvidia.com/gpus", 1),
		"applied.json": pods(t, 0, strings.Replace(latePod(0, `,"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"new","uid":"j","controller":true}]`, ""), `"name":"late"`, `"name":"new-abcde"`, 1)),
	}
	aJob := func(name, status string) string {
		return fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"default","name":%q,"uid":%q},"status":{%s}}`, name, name, status)
	}
	files["backoff.json"] = strings.NewReplacer(`"namespaces":1,`, `"namespaces":1,"jobs":2,`, `"objects":{`, `"objects":{"jobs":[`+
		aJob("failed", `"failed":7,"conditions":[{"type":"Failed","status":"True"}]`)+","+aJob("flaky", `"failed":3`)+"],").Replace(cluster)
	files["short.json"] = strings.NewReplacer(
		`"name":"old",`, `"name":"old","labels":{"reprieve.dev/pod-group":"train"},`, `"namespaces":1,`, `"namespaces":1,"podgroups.reprieve.dev":1,`, `"objects":{`,
		`"objects":{"podgroups.reprieve.dev":[{"apiVersion":"reprieve.dev/v1alpha1","kind":"PodGroup","metadata":{"namespace":"default","name":"train","uid":"g"},
"spec":{"schedulingPolicy":{"gang":{"minCount":2}}},"status":{"conditions":[
{"type":"Degraded","status":"True","reason":"MembersLost","lastTransitionTime":"2026-03-01T11:00:00Z","message":"gang of 2 has 1"},
{"type":"FollowsObject","status":"False","reason":"MinCountFixed","lastTransitionTime":"2026-03-01T11:30:00Z","message":"the Job asks for 3"}]}}],`,
	).Replace(cluster)
	files["gated.json"] = strings.Replace(files["gated.json"], `"pods":2,`, `"pods":3,`, 1)
	for name, c := range map[string]struct {
		args []string
		want int
		// wantOut are texts that the output or the error must contain, with single spaces. wantNot
		// are texts that neither may contain.
		wantOut, wantNot []string
	}{
		"many pods of one Deployment are one line": {
			args: []string{"why", "late", "--remedies=false", "--snapshot", "many.json"}, wantOut: []string{"Protected: 188 pods of deployment default/web by NotLowerPriority."}, wantNot: []string{"web-5d9-1"},
		},
		"the one that holds the room is first": {
			args: []string{"why", "late", "--remedies=false", "--snapshot", "many.json"}, wantOut: []string{"\nProtected: pod default/old by NotLowerPriority. Protected: 188 pods"},
		},
		"and with -o wide they are listed": {
			args: []string{"why", "late", "--remedies=false", "--snapshot", "many.json", "-o", "wide"}, wantOut: []string{"pod default/web-5d9-1 by", "pod default/web-5d9-187 by"}, wantNot: []string{"188 pods of"},
		},
		"of a plan too": {
			args: []string{"plan", "-f", "job.yaml", "--snapshot", "many.json"}, want: 6, wantOut: []string{"- 188 pods of deployment default/web stays: NotLowerPriority"},
		},
		"what takes an administrator says so, and comes last": {
			args: []string{"why", "late", "--snapshot", "late.json"}, wantOut: []string{"Would help: submit it with the PriorityClass high", "Would help: add 1 node like node-a (pod fits on node-a-added-1; takes an administrator)"},
		},
		"what cannot be tried is not in line": {
			args: []string{"why", "late", "--remedies=false", "--snapshot", "gated.json"}, wantOut: []string{"In line: 1 of 1"},
		},
		"a directory":             {args: []string{"plan", "-f", dir, "--snapshot", "late.json"}, want: 6, wantOut: []string{"job/new (default)", "job/newer (default)"}},
		"an empty directory":      {args: []string{"plan", "-f", t.TempDir(), "--snapshot", "late.json"}, want: 2, wantOut: []string{"has no file that ends in .yaml"}},
		"a kind that there isn't": {args: []string{"why", "podgruop/late", "--snapshot", "late.json"}, want: 2, wantOut: []string{"did you mean podgroup?"}},
		"a name that there isn't": {args: []string{"why", "lat", "--snapshot", "late.json"}, want: 3, wantOut: []string{"pod default/lat does not exist", "did you mean late?"}},
		"when of such a name":     {args: []string{"when", "laet", "--snapshot", "late.json"}, want: 3, wantOut: []string{"did you mean late?"}},
		"another namespace":       {args: []string{"why", "late", "-n", "team", "--snapshot", "late.json"}, want: 3, wantOut: []string{"there is one in namespace default"}},
		"a namespace misspelled":  {args: []string{"why", "nothing", "-n", "defult", "--snapshot", "late.json"}, want: 3, wantOut: []string{"there is no namespace defult; did you mean default?"}},
		"typos in the cluster": {
			args: []string{"lint", "--snapshot", "typo.json"},
			wantOut: []string{
				"nothing reads the label reprieve.dev/podgroup; did you mean reprieve.dev/pod-group?", `Queue "tem" does not exist`,
				"nothing reads the annotation reprieve.dev/gangs; did you mean reprieve.dev/gang?",
			},
		},
		"no typos": {args: []string{"lint", "--snapshot", "late.json"}, wantOut: []string{"No mistakes found."}},
		"typos in a manifest": {
			args: []string{"plan", "-f", "typo.yaml", "--snapshot", "late.json"}, want: 6,
			wantOut: []string{"Note: job/new: nothing reads the annotation reprieve.dev/gnag; did you mean reprieve.dev/gang?", "Note: job/new: no node has nvidia.com/gpus; did you mean nvidia.com/gpu?"},
		},
		"what is applied already": {
			args: []string{"plan", "-f", "job.yaml", "--snapshot", "applied.json"}, want: 6, wantOut: []string{"Note: job/new is in the cluster already, with 1 pod"},
		},
		"how full it is":       {args: []string{"status", "--snapshot", "late.json"}, wantOut: []string{"nvidia.com/gpu 4 4 100%", "by nvidia.com/gpu alone: 0 pods of 1.", "Waiting: 1 workload."}},
		"what waits":           {args: []string{"waiting", "--snapshot", "gated.json"}, wantOut: []string{"1 pod default/late - 0 1 2026-03-01T11:30:00Z", `- pod default/gated - 0 1`, "1 workload can be tried, and 1 cannot yet."}},
		"who could stop it":    {args: []string{"protected", "old", "--from", "--snapshot", "high.json"}, wantOut: []string{"pod default/late 100 - pod default/old LowerPriority"}},
		"nobody could stop it": {args: []string{"protected", "old", "--from", "--snapshot", "late.json"}, wantOut: []string{"nothing that waits would stop it by its next decision (1 workload asked)"}},
		"cost of what":         {args: []string{"cost"}, want: 2, wantOut: []string{"give --log FILE"}},
		"when a Job in its back-off goes on": {
			args: []string{"when", "job/flaky", "--snapshot", "backoff.json"}, wantOut: []string{"job default/flaky: has no pods now: job default/flaky backs off after 3 failures.", "New pods: at the latest 2026-03-01T12:00:40Z"},
		},
		"when a Job that is over goes on": {args: []string{"when", "job/failed", "--snapshot", "backoff.json"}, want: 3, wantOut: []string{"has no pod that is pending"}},
		"gangs below minCount": {
			args: []string{"degraded", "--snapshot", "short.json"}, wantOut: []string{"podgroup default/train - 1/2 4 2026-03-01T11:00:00Z gang of 2 has 1"},
		},
		"no gang is": {args: []string{"degraded", "--snapshot", "late.json"}, wantOut: []string{"Every gang that holds nodes"}},
		"known causes come first": {
			args: []string{"why", "podgroup/train", "--snapshot", "short.json"}, wantOut: []string{"Blocked: podgroup default/train (FollowsObject, MinCountFixed, since 2026-03-01T11:30:00Z): the Job asks for 3"},
		},
		"a server that does not answer": {
			args: []string{"queues", "--server", "https://127.0.0.1:1", "--context", ""}, want: 5, wantOut: []string{"the API server https://127.0.0.1:1 does not answer (kubeconfig ", ", context none)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, files, "", c.args...)
			said := strings.Join(strings.Fields(out+errOut), " ")
			if code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
			for _, words := range c.wantOut {
				if !strings.Contains(said, strings.TrimPrefix(words, "\n")) {
					t.Errorf("It says %q, want %q", said, words)
				}
			}
			for _, words := range c.wantNot {
				if strings.Contains(said, words) {
					t.Errorf("It says %q, and %q is too much", said, words)
				}
			}
		})
	}
}

// TestJSONHasOneFormOfTime checks that every time in JSON output is RFC 3339 in UTC, and not a
// number of nanoseconds.
func TestJSONHasOneFormOfTime(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"why", "podgroup/train"}, {"why", "podgroup/batch"}, {"when", "podgroup/train"}, {"protected"}, {"history"}, {"queues"}, {"waiting"}, {"status"}, {"degraded"}} {
		_, out, errOut := run(t, map[string]string{"cluster.json": string(text)}, "", append(args, "-o", "json", "--snapshot", "cluster.json")...)
		var value any
		if err := json.Unmarshal([]byte(out), &value); err != nil {
			t.Fatalf("%v: %v, %s", args, err, errOut)
		}
		timesIn(t, args, "", value)
	}
}

// timesIn fails the test for each time in value, at any depth, that is not RFC 3339 in UTC.
func timesIn(t *testing.T, args []string, at string, value any) {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			timesIn(t, args, at+"."+key, v)
		}
	case []any:
		for _, v := range value {
			timesIn(t, args, at, v)
		}
	case float64:
		if value > 1e15 {
			t.Errorf("%v: %s is the number %v", args, at, value)
		}
	case string:
		if len(value) > 18 && value[:2] == "20" && value[4] == '-' && !strings.HasSuffix(value, "Z") {
			t.Errorf("%v: %s is %q, not in UTC", args, at, value)
		}
	}
}
