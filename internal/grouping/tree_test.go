package grouping

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

const (
	treeOn  = gangOn + ", reprieve.dev/gang-per: tree"
	jobRole = "jobset.sigs.k8s.io/replicatedjob-name"
	rayRole = "ray.io/group"

	torchRole = "training.kubeflow.org/replica-type"
	mpiRole   = "training.kubeflow.org/job-role"
)

// TestTrees checks the trees of objects: the groups of the pods, and the counts of the tree.
func TestTrees(t *testing.T) {
	t.Parallel()
	const twoRoles = "replicatedJobs: [{name: driver, template: {spec: {}}}, {name: worker, replicas: 2, template: {spec: {parallelism: 2}}}]"
	ray := func(workers string) string { return "headGroupSpec: {}, workerGroupSpecs: [" + workers + "]" }
	replica := func(index, worker string) []string {
		return []string{
			"leaderworkerset.sigs.k8s.io/name", "it", "leaderworkerset.sigs.k8s.io/group-index", index, "leaderworkerset.sigs.k8s.io/worker-index", worker,
		}
	}
	for name, tc := range map[string]struct {
		// kind, annotations and spec define the object.
		kind, annotations, spec string
		// pods are the labels of the pods of the object.
		pods [][]string
		// wantParts are the numbers of members that the groups of the pods need. A group that is
		// not a part of the tree has a negative number.
		wantParts []int
		// wantGroups is the number of groups that the tree needs; 0 if there must be no tree.
		wantGroups int
		// wantHold is a part of the message that blocks the pods; "" if they are not blocked.
		wantHold string
		// wantMode and wantPartMode are the disruption modes that the object requests, and
		// wantDefault is the default mode of the parts.
		wantMode, wantPartMode, wantDefault string
	}{
		"a LeaderWorkerSet": {
			kind: "LeaderWorkerSet", annotations: treeOn, spec: "replicas: 3, leaderWorkerTemplate: {size: 4}",
			pods: [][]string{replica("0", "0"), replica("1", "1")}, wantParts: []int{4, 4}, wantGroups: 3,
		},
		"a LeaderWorkerSet that recreates replicas": {
			kind: "LeaderWorkerSet", annotations: treeOn, spec: "replicas: 2, leaderWorkerTemplate: {size: 2, restartPolicy: RecreateGroupOnPodRestart}",
			pods: [][]string{replica("0", "0")}, wantParts: []int{2}, wantGroups: 2, wantDefault: "PodGroup",
		},
		"a LeaderWorkerSet whose tree is evicted together": {
			kind: "LeaderWorkerSet", annotations: treeOn + ", reprieve.dev/disruption-mode: All", spec: "replicas: 2, leaderWorkerTemplate: {size: 2, restartPolicy: None}",
			pods: [][]string{replica("0", "0")}, wantParts: []int{2}, wantGroups: 2, wantMode: "PodGroup",
		},
		"a LeaderWorkerSet whose leaders start first": {
			kind: "LeaderWorkerSet", annotations: treeOn, spec: "replicas: 2, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 2}",
			pods: [][]string{replica("0", "1")}, wantHold: "the leader of each replica starts before its workers",
		},
		"a LeaderWorkerSet without replicas": {
			kind: "LeaderWorkerSet", annotations: treeOn, spec: "replicas: 0, leaderWorkerTemplate: {size: 2}",
			pods: [][]string{replica("0", "0")}, wantParts: []int{2},
		},
		"a JobSet": {
			kind: "JobSet", annotations: treeOn, spec: twoRoles,
			pods: [][]string{{jobRole, "driver"}, {jobRole, "worker"}}, wantParts: []int{1, 4}, wantGroups: 2,
		},
		"a JobSet with a role for another scheduler": {
			kind: "JobSet", annotations: treeOn, spec: strings.Replace(strings.Replace(twoRoles, "template: {spec: {}}", "template: {spec: {template: {spec: {schedulerName: other}}}}", 1),
				"parallelism: 2", "parallelism: 2, template: {spec: {schedulerName: "+profile+"}}", 1),
			pods: [][]string{{jobRole, "worker"}}, wantParts: []int{4}, wantGroups: 1,
		},
		"a JobSet whose roles start in order": {
			kind: "JobSet", annotations: treeOn, spec: "startupPolicy: {startupPolicyOrder: InOrder}, " + twoRoles,
			pods: [][]string{{jobRole, "driver"}}, wantHold: `no tree can span them; set the annotation reprieve.dev/gang-per to "role"`,
		},
		"a RayCluster": {
			kind: "RayCluster", annotations: treeOn, spec: ray("{groupName: gpu, replicas: 3}, {groupName: cpu, replicas: 2}"),
			pods: [][]string{{rayRole, "headgroup"}, {rayRole, "gpu"}, {rayRole, "cpu"}}, wantParts: []int{1, 3, 2}, wantGroups: 3,
		},
		"a RayCluster with a group that needs no pods": {
			kind: "RayCluster", annotations: treeOn, spec: "enableInTreeAutoscaling: true, " + ray("{groupName: gpu, minReplicas: 2}, {groupName: cpu, minReplicas: 0}"),
			pods: [][]string{{rayRole, "headgroup"}, {rayRole, "gpu"}, {rayRole, "cpu"}}, wantParts: []int{1, 2, -1}, wantGroups: 2,
		},
		"a PyTorchJob": {
			kind: "PyTorchJob", annotations: treeOn, spec: "pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 3}}",
			pods: [][]string{{torchRole, "master"}, {torchRole, "worker"}}, wantParts: []int{1, 3}, wantGroups: 2,
		},
		"an MPIJob whose launcher waits for its workers": {
			kind: "MPIJob", annotations: treeOn, spec: "launcherCreationPolicy: WaitForWorkersReady, mpiReplicaSpecs: {Launcher: {}, Worker: {replicas: 3}}",
			pods: [][]string{{mpiRole, "worker"}}, wantParts: []int{3}, wantGroups: 1,
		},
		"a SparkApplication": {
			kind: "SparkApplication", annotations: treeOn, spec: "executor: {instances: 4}",
			pods: [][]string{{sparkName, "it", "spark-role", "executor"}}, wantParts: []int{4}, wantGroups: 1,
		},
		"a Job": {
			kind: "Job", annotations: treeOn + ", reprieve.dev/disruption-mode: All", spec: "parallelism: 3",
			pods: [][]string{{}}, wantParts: []int{-3}, wantPartMode: "PodGroup",
		},
		"an unknown value": {
			kind: "JobSet", annotations: gangOn + ", reprieve.dev/gang-per: replica", spec: twoRoles,
			pods: [][]string{{jobRole, "driver"}}, wantHold: `reprieve.dev/gang-per is "replica"; it has to be "object", "role" or "tree"`,
		},
		"the mode All without a tree": {
			kind: "JobSet", annotations: gangOn + ", reprieve.dev/disruption-mode: All", spec: twoRoles,
			pods: [][]string{{jobRole, "driver"}}, wantHold: `reprieve.dev/disruption-mode is "All"; it has to be "Pod" or "PodGroup"`,
		},
		"a topology key": {
			kind: "JobSet", annotations: treeOn + ", reprieve.dev/topology-key: rack", spec: twoRoles,
			pods: [][]string{{jobRole, "driver"}}, wantHold: `the annotation reprieve.dev/topology-key is "rack", which has no meaning for a tree`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, "LeaderWorkerSet", "JobSet", "RayCluster", "Job", "PyTorchJob", "MPIJob", "SparkApplication")
			w.object(tc.kind+"/it", "", tc.annotations, tc.spec)
			var parts []Group
			for i, labels := range tc.pods {
				owner := tc.kind + "/it"
				if tc.kind == "LeaderWorkerSet" {
					owner = ""
				}
				pod := w.pod(string(rune('a'+i)), owner, labels...)
				key, ok := w.GroupOf(pod)
				if hold := w.Hold(pod); ok != (tc.wantHold == "") || !strings.Contains(hold.Message, tc.wantHold) {
					t.Fatalf("pod %d is in group %v, and is blocked by %q", i, key, hold.Message)
				}
				if !ok {
					return
				}
				g, _ := w.Group(key)
				parts = append(parts, g)
				checkPart(t, &g, tc.wantParts[i], tc.wantPartMode, tc.wantDefault)
			}
			key := gang.TreeKey("ns", baseName(w.objects[parts[0].Owner.UID]))
			tree, known := w.Group(key)
			if (known && !tree.Ended) != (tc.wantGroups > 0) {
				t.Fatalf("the tree is known: %t, and is %+v", known, tree)
			}
			if tc.wantGroups > 0 && (!tree.Tree || tree.MinCount != tc.wantGroups || tree.Choice.DisruptionMode != tc.wantMode) {
				t.Errorf("the tree is %+v", tree)
			}
			inTree := 0
			for i := range parts {
				if parts[i].Parent == key {
					inTree++
				}
			}
			if tc.wantGroups > 0 && len(tree.Parts) != inTree {
				t.Errorf("the parts are %v, want %d", tree.Parts, inTree)
			}
		})
	}
}

// checkPart checks the group of a pod. A negative number of members means that the group must not
// be a part of a tree.
func checkPart(t *testing.T, g *Group, want int, wantMode, wantDefault string) {
	t.Helper()
	if g.MinCount != max(want, -want) || (g.Parent.Name != "") != (want > 0) && !g.Surplus {
		t.Errorf("the group needs %d and has the parent %v, want %d", g.MinCount, g.Parent, want)
	}
	if g.Choice.DisruptionMode != wantMode || g.Choice.DefaultMode != wantDefault {
		t.Errorf("the mode is %q, by default %q; want %q and %q", g.Choice.DisruptionMode, g.Choice.DefaultMode, wantMode, wantDefault)
	}
}

// TestTreeFollowsItsObject checks a tree whose object changes while some of its pods have a node.
func TestTreeFollowsItsObject(t *testing.T) {
	t.Parallel()
	const spec = "leaderWorkerTemplate: {size: 1}, replicas: "
	w := newWorld(t, false, "LeaderWorkerSet")
	w.object("LeaderWorkerSet/serve", "", treeOn, spec+"3")
	pods := []*corev1.Pod{w.serving("serve-0", "0", "0", "", 0), w.serving("serve-1", "1", "0", "", 0)}
	part, _ := w.GroupOf(pods[0])
	g, _ := w.Group(part)
	check := func(when string, wantGroups int, wantEnded bool, wantParts int) {
		t.Helper()
		tree, ok := w.Group(g.Parent)
		if !ok || tree.MinCount != wantGroups || tree.Ended != wantEnded || !wantEnded && len(tree.Parts) != wantParts {
			t.Errorf("%s: the tree is %+v, want %d groups and %d parts", when, tree, wantGroups, wantParts)
		}
	}
	w.GroupOf(pods[1])
	check("at first", 3, false, 2)
	w.object("LeaderWorkerSet/serve", "", treeOn, spec+"5")
	check("after it has grown", 5, false, 2)
	if count, _ := w.MinCount(g.Parent); count != 5 {
		t.Errorf("MinCount of the tree is %d, want 5", count)
	}
	pods[0].Spec.NodeName = "node"
	w.object("LeaderWorkerSet/serve", "", gangOn, spec+"5")
	check("while one replica runs that was in the tree", 1, false, 1)
	if now, _ := w.Group(part); now.Parent != g.Parent || now.Note == "" {
		t.Errorf("the running replica has the parent %v and the note %q", now.Parent, now.Note)
	}
	pods[0].Spec.NodeName = ""
	w.Sweep()
	check("once no replica is in the tree", 0, true, 0)
	pods[1].Spec.NodeName = "node"
	w.object("LeaderWorkerSet/serve", "", treeOn, spec+"5")
	check("while one replica runs that was not in the tree", 4, false, 1)
	w.Delete("LeaderWorkerSet/serve")
	if tree, _ := w.Group(g.Parent); !tree.Ended {
		t.Error("the tree has not ended with its object")
	}
}

// TestTreeOfKeptPlans checks a tree whose object can no longer have one. Only the running replicas
// must count for the tree.
func TestTreeOfKeptPlans(t *testing.T) {
	t.Parallel()
	const spec = "leaderWorkerTemplate: {size: 1}, replicas: 3"
	for name, annotations := range map[string]string{
		"a flaw":             treeOn + ", reprieve.dev/topology-key: rack",
		"no gang":            `reprieve.dev/gang: "false", reprieve.dev/gang-per: tree`,
		"nothing about gang": "reprieve.dev/gang-per: tree",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, "LeaderWorkerSet")
			w.object("LeaderWorkerSet/serve", "", treeOn, spec)
			var part Group
			for _, unit := range []string{"0", "1", "2"} {
				pod := w.serving("serve-"+unit, unit, "0", "", 0)
				key, _ := w.GroupOf(pod)
				part, _ = w.Group(key)
				pod.Spec.NodeName = map[string]string{"0": "node", "1": "node"}[unit]
			}
			w.object("LeaderWorkerSet/serve", "", annotations, spec)
			if tree, _ := w.Group(part.Parent); tree.Ended || tree.MinCount != 2 || len(tree.Parts) != 2 {
				t.Errorf("the tree is %+v, want one of the two replicas that run", tree)
			}
		})
	}
}

// TestReplicaPastTheTree checks a replica that the object needs during a rollout only. If all other
// replicas run outside of the tree, there is no tree that the replica could wait for.
func TestReplicaPastTheTree(t *testing.T) {
	t.Parallel()
	const spec = "leaderWorkerTemplate: {size: 1}, replicas: 1"
	w := newWorld(t, false, "LeaderWorkerSet")
	w.object("LeaderWorkerSet/serve", "", gangOn, spec)
	running := w.serving("serve-0", "0", "0", "", 0)
	w.GroupOf(running)
	running.Spec.NodeName = "node"
	w.object("LeaderWorkerSet/serve", "", treeOn, spec)
	key, _ := w.GroupOf(w.serving("serve-1", "1", "0", "", 0))
	if g, _ := w.Group(key); g.Parent.Name != "" || !g.Surplus {
		t.Errorf("the further replica is %+v, want it outside of any tree", g)
	}
	running.Spec.NodeName = ""
	w.Sweep()
	if g, _ := w.Group(key); g.Parent.Name == "" {
		t.Error("the further replica is outside of the tree of the first")
	}
}

// TestPartsOutsideOfTheTree checks parts that run outside of the tree: the tree does not count
// them.
func TestPartsOutsideOfTheTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "LeaderWorkerSet", "JobSet")
	w.object("LeaderWorkerSet/serve", "", treeOn, "leaderWorkerTemplate: {size: 1}, replicas: 3")
	w.object("JobSet/it", "", treeOn, "replicatedJobs: [{name: driver, template: {spec: {}}}, {name: worker, template: {spec: {}}}, {name: logger, template: {spec: {}}}]")
	for name, pods := range map[string][]*corev1.Pod{
		"replicas": {w.serving("serve-0", "0", "0", "", 0), w.serving("serve-1", "1", "0", "", 0)},
		"roles":    {w.pod("driver", "JobSet/it", jobRole, "driver"), w.pod("worker", "JobSet/it", jobRole, "worker")},
	} {
		outside, _ := w.GroupOf(pods[0])
		inside, _ := w.GroupOf(pods[1])
		g, _ := w.Group(outside)
		tree := g.Parent
		check := func(when string, wantCount, wantParts int, wantOutside bool) {
			t.Helper()
			now, _ := w.Group(tree)
			if part, _ := w.Group(outside); now.MinCount != wantCount || len(now.Parts) != wantParts || part.Outside != wantOutside || part.Parent != tree {
				t.Errorf("%s, %s: the tree is %+v, and the part is %+v", name, when, now, part)
			}
		}
		w.SetOutside(inside, false)
		check("at first", 3, 2, false)
		w.changed, w.moved = nil, nil
		w.SetOutside(outside, true)
		check("while one runs alone", 2, 1, true)
		if !slices.Contains(w.changed, tree) || !slices.Contains(w.moved, pods[1].Name) {
			t.Errorf("%s: the tree is not among the changes %v, or a waiting pod not among %v", name, w.changed, w.moved)
		}
		w.SetOutside(outside, false)
		check("once none of its pods runs", 3, 2, false)
	}
}

// TestTreeWithoutUnits checks a rule that does not define the number of replicas.
func TestTreeWithoutUnits(t *testing.T) {
	t.Parallel()
	for units, want := range map[string]bool{"": true, "spec.replicas": false} {
		rule := &Rule{UnitLabel: "replica", Units: Path(units), Roles: []Role{{Name: "worker", Replicas: "spec.size"}}}
		p := newPlan(rule, Reading{Units: 1, Roles: []Size{{Name: "worker", Count: 2}}}, Choice{Gang: "true", Per: "tree"}, Choice{}, "ns",
			func(string) bool { return true })
		if strings.Contains(p.flaw, "no path for the number of replicas (units)") != want {
			t.Errorf("with units %q, the flaw is %q", units, p.flaw)
		}
	}
}

// TestRecalledTree checks that a Resolver recognizes the CompositePodGroup of an earlier process.
func TestRecalledTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "JobSet")
	w.object("JobSet/it", "", gangOn, "replicatedJobs: [{name: driver, template: {spec: {}}}]")
	key := gang.TreeKey("ns", baseName(w.objects["JobSet/it"]))
	if _, known := w.Group(key); known {
		t.Fatal("the tree is known although nobody has asked for it")
	}
	w.Recall(key, "JobSet/it")
	if tree, known := w.Group(key); !known || !tree.Tree || !tree.Ended {
		t.Errorf("the recalled tree is %+v", tree)
	}
}
