package app_test

import (
	"strings"
	"testing"
)

// queued is JSON for the metadata of a pod: the label of the queue team.
const queued = `,"labels":{"reprieve.dev/queue":"team"}`

// limited returns a snapshot with a queue at its limit of 4 GPUs. A running pod uses all 4; it has
// the given priority and is protected for another 50 minutes. Another pod of the queue waits.
func limited(priority string) string {
	old := strings.Replace(asking("old", queued, "node-a", 4), `"priority":10`, `"priority":`+priority, 1)
	old = strings.Replace(old, `"status":{`, `"status":{"conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-03-01T11:00:00Z"}],`, 1)
	return framed(map[string][]string{
		"priorityclasses": {`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high","uid":"high"},"value":100}`},
		"queues.reprieve.dev": {`{"apiVersion":"reprieve.dev/v1alpha1","kind":"Queue","metadata":{"name":"team","uid":"team"},
"spec":{"quota":{"nvidia.com/gpu":"4"},"limit":{"nvidia.com/gpu":"4"},"preemptMinRuntime":"110m"}}`},
		"pods": {old, asking("new", queued, "", 4)},
	})
}

// gangs returns a snapshot with two nodes of 4 GPUs, a running pod, three gangs and a Job:
//
//   - A gang that needs 2 members of 1 GPU. One of its three members has a scheduling gate.
//   - A gang whose members all have a scheduling gate.
//   - A gang of scheduling.k8s.io that needs 3 members of 4 GPUs.
//   - A Job that is no gang. One of its two pods has a scheduling gate.
func gangs() string {
	own := func(name string) string {
		return strings.ReplaceAll(`{"apiVersion":"reprieve.dev/v1alpha1","kind":"PodGroup","metadata":{"namespace":"default","name":"NAME","uid":"group-NAME"},
"spec":{"schedulingPolicy":{"gang":{"minCount":2}},"priority":10,"preemptionPolicy":"PreemptLowerPriority"}}`, "NAME", name)
	}
	member := func(group, name, gates string) string {
		pod := asking(name, `,"labels":{"reprieve.dev/pod-group":"`+group+`"}`, "", 1)
		return strings.Replace(pod, `"spec":{`, `"spec":{`+gates, 1)
	}
	native := func(name string) string {
		return strings.Replace(asking(name, "", "", 4), `"spec":{`, `"spec":{"schedulingGroup":{"podGroupName":"theirs"},`, 1)
	}
	const gate, job = `"schedulingGates":[{"name":"example.com/wait"}],`, `,"labels":{"batch.kubernetes.io/job-name":"loose"}`
	return framed(map[string][]string{
		"nodes": {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a","uid":"a"},"status":{"allocatable":{"cpu":"8","memory":"64Gi","pods":"110","nvidia.com/gpu":"4"},"capacity":{"cpu":"8"}}}`,
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-b","uid":"b"},"status":{"allocatable":{"cpu":"8","memory":"64Gi","pods":"110","nvidia.com/gpu":"4"},"capacity":{"cpu":"8"}}}`},
		"priorityclasses":        {`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high","uid":"high"},"value":100}`},
		"podgroups.reprieve.dev": {own("shut"), own("train")},
		"podgroups.scheduling.k8s.io": {`{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","metadata":{"namespace":"default","name":"theirs","uid":"group-theirs"},
"spec":{"schedulingPolicy":{"gang":{"minCount":3}}}}`},
		"pods": {
			strings.Replace(asking("loose-0", job, "", 1), `"spec":{`, `"spec":{`+gate, 1), asking("loose-1", job, "", 1),
			asking("old", "", "node-b", 2), member("shut", "shut-0", gate), member("shut", "shut-1", gate),
			native("theirs-0"), native("theirs-1"), native("theirs-2"),
			member("train", "train-0", gate), member("train", "train-1", ""), member("train", "train-2", ""),
		},
	})
}

// TestGangsAndLimits checks the reported cause of a wait. The command must report the same cause as
// the scheduler: the cause for the whole workload, not for its first pod alone.
func TestGangsAndLimits(t *testing.T) {
	t.Parallel()
	const protected, room = "PreemptMinRuntime of queue team protects default/old", "there is room as things are: gang of 2 fits"
	files := map[string]string{
		"limited.json": limited("0"), "equal.json": limited("10"), "gangs.json": gangs(),
		"pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: next, labels: {reprieve.dev/queue: team}}\nspec:\n  schedulerName: reprieve-scheduler\n" +
			"  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]\n",
	}
	for name, c := range map[string]struct {
		args []string
		want int
		// wantOut are texts that the output must contain, and wantNot are texts that it must not
		// contain.
		wantOut, wantNot []string
	}{
		"when, at a limit behind a protection": {
			args: []string{"when", "new", "--snapshot", "limited.json"}, wantNot: []string{"Unknown"},
			wantOut: []string{"Not before 2026-03-01T12:50:00Z: " + protected, "At the latest 2026-03-01T12:50:00Z: protections have ended"},
		},
		"why, at a limit behind a protection": {
			args:    []string{"why", "new", "--snapshot", "limited.json"},
			wantOut: []string{"Protected: pod default/old by PreemptMinRuntime of queue team until", "Not before: 2026-03-01T12:50:00Z", "Would help: wait until 2026-03-01T12:50:00Z"},
		},
		"plan, at a limit behind a protection": {
			args: []string{"plan", "-f", "pod.yaml", "--set-priority", "high", "--snapshot", "limited.json"}, want: 6,
			wantOut: []string{"Held", "pod default/old stays: PreemptMinRuntime", "Not before 2026-03-01T12:50:00Z"},
		},
		"when, at a limit that equals use up": {
			args: []string{"when", "new", "--snapshot", "equal.json"}, wantOut: []string{"Unknown: 1 of the pods that run declare no end."}, wantNot: []string{"Not before"},
		},
		"why, of a gang with a member behind a gate": {
			args:    []string{"why", "podgroup/train", "--snapshot", "gangs.json"},
			wantOut: []string{"(3 pending, 1 of them gated, 0 with a node, 0 leaving)", "Next: there is room now; gang of 2 fits"}, wantNot: []string{"example.com/wait"},
		},
		"when, of the member behind a gate": {
			args:    []string{"when", "train-0", "--snapshot", "gangs.json"},
			wantOut: []string{`scheduling gate "example.com/wait" has not been lifted; without it: gang of 2 fits`, "Unknown: the passage of time does not unblock it."},
			wantNot: []string{"At the latest", "leaves out"},
		},
		"why, of the member behind a gate": {
			args:    []string{"why", "train-0", "--snapshot", "gangs.json"},
			wantOut: []string{`Missing: scheduling gate "example.com/wait" has not been lifted; without it: gang of 2 fits`}, wantNot: []string{"Would help", "Next:"},
		},
		"why, of a Job with a pod behind a gate": {
			args: []string{"why", "job/loose", "--snapshot", "gangs.json"}, wantOut: []string{"Next: there is room now; pod fits on node-"}, wantNot: []string{"example.com/wait"},
		},
		"when, of a gang that is behind gates": {
			args: []string{"when", "podgroup/shut", "--snapshot", "gangs.json"}, wantNot: []string{"leaves out"},
			wantOut: []string{`scheduling gate "example.com/wait" has not been lifted`, "Unknown: the passage of time does not unblock it."},
		},
		"why, of a gang of scheduling.k8s.io": {
			args:    []string{"why", "podgroup/theirs", "--snapshot", "gangs.json"},
			wantOut: []string{"Would help: add 2 nodes like node-a (gang of 3 fits"}, wantNot: []string{"lower minCount"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, files, "", c.args...)
			if code != c.want || c.want == 0 && errOut != "" {
				t.Errorf("exit code %d, want %d; it says %q", code, c.want, errOut)
			}
			checkWords(t, out, c.wantOut, c.wantNot)
		})
	}
}
