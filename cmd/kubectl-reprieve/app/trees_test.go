package app_test

import (
	"fmt"
	"strings"
	"testing"
)

// aComposite returns a CompositePodGroup. spec and status are additional JSON fields.
func aComposite(name string, minGroupCount int, spec, status string) string {
	return fmt.Sprintf(`{"apiVersion":"reprieve.dev/v1alpha1","kind":"CompositePodGroup","metadata":{"namespace":"default","name":%q,"uid":"tree-%s"},
"spec":{"schedulingPolicy":{"gang":{"minGroupCount":%d}},"priority":10,"preemptionPolicy":"PreemptLowerPriority"%s},"status":{%s}}`, name, name, minGroupCount, spec, status)
}

// aPart returns a PodGroup whose parent is a CompositePodGroup.
func aPart(parent, name string, minCount int) string {
	return fmt.Sprintf(`{"apiVersion":"reprieve.dev/v1alpha1","kind":"PodGroup","metadata":{"namespace":"default","name":%q,"uid":"part-%s"},
"spec":{"parentCompositePodGroupName":%q,"schedulingPolicy":{"gang":{"minCount":%d}},"priority":10,"preemptionPolicy":"PreemptLowerPriority"}}`, name, name, parent, minCount)
}

// membersOf returns pods of a PodGroup. node is their node; "" for pending pods.
func membersOf(group string, count, gpus int, node string) []string {
	out := make([]string, count)
	for i := range out {
		out[i] = asking(fmt.Sprintf("%s-%d", group, i), `,"labels":{"reprieve.dev/pod-group":"`+group+`"}`, node, gpus)
	}
	return out
}

// treed returns a snapshot with two nodes of 4 GPUs and a tree. The tree has the PodGroups prefill
// and decode, which need 2 members each. status is the status of the tree in JSON. composites are
// additional CompositePodGroups in JSON, and pods are the pods of the snapshot.
func treed(minGroupCount int, status string, composites []string, pods ...[]string) string {
	node := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"uid":%q},"status":{"allocatable":{"cpu":"8","memory":"64Gi","pods":"110","nvidia.com/gpu":"4"},"capacity":{"cpu":"8"}}}`, name, name)
	}
	var all []string
	for _, some := range pods {
		all = append(all, some...)
	}
	return framed(map[string][]string{
		"nodes":                  {node("node-a"), node("node-b")},
		"priorityclasses":        {`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high","uid":"high"},"value":100}`},
		"podgroups.reprieve.dev": {aPart("serving", "prefill", 2), aPart("serving", "decode", 2)},
		"compositepodgroups.reprieve.dev": append([]string{
			aComposite("serving", minGroupCount, "", status),
		}, composites...),
		"pods": all,
	})
}

// submittedTree returns the manifests of a tree that needs one of its three PodGroups. Each
// PodGroup has one member, which requests 4 GPUs.
func submittedTree() string {
	out := "apiVersion: reprieve.dev/v1alpha1\nkind: CompositePodGroup\nmetadata: {name: batch}\nspec: {schedulingPolicy: {gang: {minGroupCount: 1}}}\n"
	for _, name := range []string{"first", "second", "third"} {
		out += strings.ReplaceAll("---\napiVersion: reprieve.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: NAME}\nspec: {parentCompositePodGroupName: batch, schedulingPolicy: {gang: {minCount: 1}}}\n"+
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: NAME-0, labels: {reprieve.dev/pod-group: NAME}}\nspec:\n  schedulerName: reprieve-scheduler\n"+
			"  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]\n", "NAME", name)
	}
	return out
}

// TestTrees checks answers about trees, and about the groups and members of trees. Each answer must
// describe the tree, and the part of it that lacks members or room.
func TestTrees(t *testing.T) {
	t.Parallel()
	const short = `"conditions":[{"type":"PodGroupScheduled","status":"False","reason":"NotEnoughGroups","lastTransitionTime":"2026-03-01T11:00:00Z","message":"CompositePodGroup default/serving needs 2 groups"}]`
	evicted := `"lastDisruption":{"time":"2026-03-01T11:30:00Z","rule":"LowerPriority","preemptor":{"kind":"CompositePodGroup","namespace":"default","name":"other","uid":"o"}}`
	files := map[string]string{
		"fits.json":  treed(2, "", nil, membersOf("prefill", 2, 1, ""), membersOf("decode", 2, 1, "")),
		"lacks.json": treed(2, short, nil, membersOf("prefill", 2, 1, ""), membersOf("decode", 1, 1, "")),
		"room.json":  treed(2, "", nil, membersOf("prefill", 2, 1, ""), membersOf("decode", 2, 4, ""), []string{asking("old", "", "node-b", 1)}),
		"both.json":  treed(2, "", nil, membersOf("prefill", 2, 3, ""), membersOf("decode", 2, 3, "")),
		"one.json":   treed(1, "", nil, membersOf("prefill", 2, 1, ""), membersOf("decode", 1, 1, "")),
		"runs.json":  treed(2, evicted, nil, membersOf("prefill", 2, 1, "node-a"), membersOf("decode", 2, 1, "node-b")),
		"odd.json":   treed(2, "", nil, membersOf("prefill", 3, 1, ""), membersOf("decode", 1, 1, "")),
		"odder.json": treed(2, "", nil, membersOf("prefill", 3, 1, "node-a"), membersOf("decode", 1, 1, "node-b")),
		"half.json":  treed(2, "", nil, membersOf("prefill", 2, 1, "node-a"), membersOf("decode", 1, 1, "node-b")),
		"part.json":  treed(3, "", nil, membersOf("prefill", 2, 1, "node-a"), membersOf("decode", 2, 1, "node-b")),
		"empty.json": treed(2, "", []string{aComposite("bare", 1, "", "")}),
		"high.json":  treed(2, "", nil, membersOf("prefill", 2, 1, ""), membersOf("decode", 2, 1, ""), []string{asking("old-a", "", "node-a", 4), asking("old-b", "", "node-b", 4)}),
	}
	files["plain.json"], files["tree.yaml"] = treed(2, "", nil), submittedTree()
	files["cycle.json"] = strings.Replace(
		treed(2, "", []string{aComposite("wheel", 1, `,"parentCompositePodGroupName":"serving"`, "")}, membersOf("prefill", 2, 1, "")),
		`"minGroupCount":2}}`, `"minGroupCount":2}},"parentCompositePodGroupName":"wheel"`, 1)
	files["hollow.json"] = treed(3, "", []string{aComposite("hollow", 1, `,"parentCompositePodGroupName":"serving"`, "")}, membersOf("prefill", 2, 1, ""), membersOf("decode", 2, 1, ""))
	files["rootless.json"] = strings.ReplaceAll(files["runs.json"], `"name":"serving"`, `"name":"another"`)
	files["lonely.json"] = treed(2, "", nil, membersOf("nogroup", 1, 1, ""))
	files["orphan.json"] = strings.ReplaceAll(files["fits.json"], `"name":"serving"`, `"name":"another"`)
	for name, c := range map[string]struct {
		args []string
		want int
		// wantOut are texts that the output or the error must contain. wantNot are texts that
		// neither may contain.
		wantOut, wantNot []string
	}{
		"a tree that fits": {
			args: []string{"why", "cpg/serving", "--snapshot", "fits.json"},
			wantOut: []string{
				"compositepodgroup default/serving: pending (4 pending", "Tree: placed as a whole with compositepodgroup default/serving, which needs 2 of its 2 groups.",
				"Part: podgroup default/prefill needs 2 members and has 2 members, 0 with a node.", "Next: there is room now; gang of 4 fits", "In line: 1 of 1",
			},
			wantNot: []string{"alone"},
		},
		"a member of a tree": {
			args:    []string{"why", "decode-1", "--snapshot", "fits.json"},
			wantOut: []string{"pod default/decode-1: pending (4 pending", "placed as a whole with compositepodgroup default/serving", "Next: there is room now; gang of 4 fits"},
		},
		"a part that lacks members": {
			args: []string{"why", "podgroup/prefill", "--snapshot", "lacks.json", "--remedies=false"},
			wantOut: []string{
				"podgroup default/prefill: pending (3 pending", "placed as a whole with compositepodgroup default/serving",
				"groups.\nPart: podgroup default/decode lacks 1 member: it needs 2 members and has 1 member, 0 with a node.\nPart: podgroup default/prefill needs 2",
				"Missing: CompositePodGroup default/serving needs 2 groups with enough members and has 1; PodGroup default/decode needs 2 members and has 1",
			},
			wantNot: []string{"In line"},
		},
		"a part that lacks room": {
			args: []string{"why", "prefill-0", "--snapshot", "room.json", "--remedies=false"},
			wantOut: []string{
				"Part: podgroup default/decode needs 2 members and has 2 members, 0 with a node; alone it lacks room: needs 4 nvidia.com/gpu on 2 nodes; 1 node has them",
				"Part: podgroup default/prefill needs 2 members and has 2 members, 0 with a node; alone it has room: gang of 2 fits",
			},
			wantNot: []string{"no room for all at once"},
		},
		"parts that have no room together": {
			args:    []string{"why", "prefill-0", "--snapshot", "both.json", "--remedies=false"},
			wantOut: []string{"decode needs 2 members and has 2 members, 0 with a node; alone it has room", "Tree: each part has room alone, but there is no room for all at once."},
		},
		"a group that the tree does not need": {
			args: []string{"why", "decode-0", "--snapshot", "one.json", "--remedies=false"},
			wantOut: []string{
				"which needs 1 of its 2 groups", "Part: podgroup default/decode lacks 1 member: it needs 2 members and has 1 member, 0 with a node; the tree starts without it.",
				"Next: there is room now; gang of 2 fits",
			},
		},
		"a parent that does not exist": {
			args: []string{"why", "decode-0", "--snapshot", "orphan.json", "--remedies=false"},
			wantOut: []string{
				"Tree: placed as a whole with compositepodgroup default/serving.\n",
				"Part: podgroup default/decode needs 2 members and has 2 members, 0 with a node.\n",
				`names the parent "serving", and namespace default has no CompositePodGroup of that name; create it there`,
			},
		},
		"a cycle": {
			args: []string{"why", "prefill-0", "--snapshot", "cycle.json", "--remedies=false", "-o", "wide"},
			wantOut: []string{
				"Part: compositepodgroup default/wheel lacks 1 group: it needs 1 group and has 0 with enough members, 0 with a node.\n",
				"Part: podgroup default/decode lacks 2 members: it needs 2 members and has 0",
				"Missing: CompositePodGroup default/serving is its own ancestor, over 2 levels",
			},
			wantNot: []string{"Part: compositepodgroup default/serving", "needs 0", "starts without"},
		},
		"a needed group without PodGroups": {
			args: []string{"why", "prefill-0", "--snapshot", "hollow.json", "--remedies=false"},
			wantOut: []string{
				"which needs 3 of its 3 groups", "Part: compositepodgroup default/hollow lacks 1 group: it needs 1 group and has 0 with enough members, 0 with a node.\n",
			},
		},
		"a missing parent among waiting work": {
			args:    []string{"waiting", "--snapshot", "orphan.json", "-o", "wide"},
			wantOut: []string{"compositepodgroup default/serving", `ParentNotFound: PodGroup default/decode names the parent "serving"`},
		},
		"a missing PodGroup among waiting work": {
			args: []string{"waiting", "--snapshot", "lonely.json"}, wantOut: []string{"PodGroupNotFound: PodGroup default/nogroup does not exist"},
		},
		"a running tree whose root was deleted": {
			args:    []string{"why", "podgroup/decode", "--snapshot", "rootless.json"},
			wantOut: []string{"podgroup default/decode: running", `Tree: it cannot start again: PodGroup default/decode names the parent "serving", and namespace default has no`},
		},
		"the missing parent": {
			args: []string{"why", "cpg/serving", "--snapshot", "orphan.json", "--remedies=false"}, wantOut: []string{"compositepodgroup default/serving: pending", "create it there"},
		},
		"a tree that runs": {
			args: []string{"why", "podgroup/decode", "--snapshot", "runs.json"},
			wantOut: []string{
				"podgroup default/decode: running (0 pending, 4 with a node", "Part: podgroup default/decode needs 2 members and has 2 members, 2 with a node.",
				"Taken: compositepodgroup default/serving by compositepodgroup default/other",
			},
		},
		"a tree without pods":            {args: []string{"why", "compositepodgroups/bare", "--snapshot", "empty.json"}, wantOut: []string{"compositepodgroup default/bare: no pods"}},
		"a part without pods":            {args: []string{"why", "podgroup/decode", "--snapshot", "empty.json"}, wantOut: []string{"podgroup default/decode: no pods"}},
		"a tree that does not exist":     {args: []string{"why", "cpg/servin", "--snapshot", "fits.json"}, want: 3, wantOut: []string{"did you mean serving?"}},
		"a tree that a class would help": {args: []string{"why", "cpg/serving", "--snapshot", "high.json"}, wantOut: []string{"Would help: submit it with the PriorityClass high (100 in place of 10) (gang of 4 fits"}},
		"when a tree runs":               {args: []string{"when", "cpg/serving", "--snapshot", "runs.json"}, wantOut: []string{"has its place already, 4 pods on nodes"}},
		"when a part lacks members":      {args: []string{"when", "decode-0", "--snapshot", "lacks.json"}, wantOut: []string{"Unknown: the passage of time does not unblock it"}},
		"trees among waiting work": {
			args: []string{"waiting", "--snapshot", "lacks.json"},
			wantOut: []string{
				"compositepodgroup default/serving", "NotEnoughGroups: CompositePodGroup default/serving needs 2 groups", "0 workloads can be tried, and 1 cannot yet.",
			},
			wantNot: []string{"podgroup default/compositepodgroup"},
		},
		"a tree with enough members of one group only":  {args: []string{"waiting", "--snapshot", "odd.json"}, wantOut: []string{"0 workloads can be tried, and 1 cannot yet."}},
		"a tree with too few placed members of a group": {args: []string{"degraded", "--snapshot", "odder.json"}, wantOut: []string{"compositepodgroup default/serving", "4/5"}},
		"a tree in line": {args: []string{"waiting", "--snapshot", "fits.json"}, wantOut: []string{"compositepodgroup default/serving", "1 workload can be tried, and 0 cannot yet."}},
		"a part of it in JSON": {
			args: []string{"why", "decode-0", "--snapshot", "both.json", "--remedies=false", "-o", "json"}, wantOut: []string{`"name": "compositepodgroup default/serving"`, `"together": true`, `"neededGroups": 2`},
		},
		"a plan of a tree": {
			args: []string{"plan", "-f", "tree.yaml", "--snapshot", "plain.json", "-o", "wide"}, want: 6,
			wantOut: []string{"compositepodgroup/batch (default)", "gang of 1 fits on", "needs 4 nvidia.com/gpu"}, wantNot: []string{"podgroup/first"},
		},
		"a plan of a tree with another priority": {args: []string{"plan", "-f", "tree.yaml", "--set-priority", "high", "--snapshot", "plain.json"}, want: 6, wantOut: []string{"gang of 1 fits on"}},
		"a tree that has lost a group": {
			args:    []string{"why", "cpg/serving", "--snapshot", "part.json"},
			wantOut: []string{"which needs 3 groups and has 2.\n"}, wantNot: []string{"of its 2"},
		},
		"a tree that has lost a group among degraded gangs": {args: []string{"degraded", "--snapshot", "part.json"}, wantOut: []string{"compositepodgroup default/serving", "4/5"}},
		"a tree that has lost a member":                     {args: []string{"degraded", "--snapshot", "half.json"}, wantOut: []string{"compositepodgroup default/serving"}, wantNot: []string{"podgroup default/compositepodgroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, files, "", c.args...)
			if code != c.want || c.want == 0 && errOut != "" {
				t.Errorf("exit code %d, want %d; it says %q", code, c.want, errOut)
			}
			checkWords(t, out+errOut, c.wantOut, c.wantNot)
		})
	}
}
