package grouping

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serving adds a pod of a replica of the LeaderWorkerSet serve. The pod states the replica's size
// in an annotation, unless size is empty. The pod was created age before a fixed time.
func (w *world) serving(name, replica, worker, size string, age time.Duration) *corev1.Pod {
	pod := w.pod(name, "", "leaderworkerset.sigs.k8s.io/name", "serve", "leaderworkerset.sigs.k8s.io/group-index", replica,
		"leaderworkerset.sigs.k8s.io/worker-index", worker)
	pod.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(-age))
	if size != "" {
		pod.Annotations = map[string]string{"leaderworkerset.sigs.k8s.io/size": size}
	}
	return pod
}

// needs returns the number of members that the group of a pod needs.
func (w *world) needs(pod *corev1.Pod) int {
	w.t.Helper()
	w.group(pod)
	key, _ := w.GroupOf(pod)
	g, _ := w.Group(key)
	return g.MinCount
}

// TestReplicasOfAnotherSize checks a resized LeaderWorkerSet that recreates some replicas with the
// previous size. Such a replica needs the previous number of pods; other replicas need the new
// number.
func TestReplicasOfAnotherSize(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]string{"larger": "8", "smaller": "2", "of leaders": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, "LeaderWorkerSet")
			w.object("LeaderWorkerSet/serve", "", gangOn, "replicas: 3, leaderWorkerTemplate: {size: 4}")
			old := w.serving("serve-0", "0", "0", "4", time.Minute)
			w.object("LeaderWorkerSet/serve", "", gangOn, "replicas: 3, leaderWorkerTemplate: {size: "+size+"}")
			worker := w.serving("serve-0-1", "0", "1", "4", 0)
			other := w.serving("serve-1", "1", "0", size, time.Minute)
			silent := w.serving("serve-2", "2", "0", "", time.Minute)
			if w.needs(old) != 4 || w.needs(other) != int(size[0]-'0') || w.needs(silent) != w.needs(other) {
				t.Errorf("the old replica needs %d, others %d and %d", w.needs(old), w.needs(other), w.needs(silent))
			}
			if _, needed := w.RoleOf(worker); needed != 3 {
				t.Errorf("of its workers it needs %d", needed)
			}
			// The replica is replaced by one of the new size, and a pod with the old size is left.
			w.changed = nil
			young := w.serving("serve-0-new", "0", "0", size, 0)
			key, _ := w.GroupOf(young)
			if w.needs(young) != w.needs(other) || w.needs(old) != w.needs(other) || !slices.Contains(w.changed, key) {
				t.Errorf("once it is replaced it needs %d; told of %v", w.needs(young), w.changed)
			}
		})
	}
}

// TestReplicaKeepsItsShape checks that a running replica keeps its group if a change would split
// it. The change must still apply to other replicas.
func TestReplicaKeepsItsShape(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "LeaderWorkerSet")
	w.object("LeaderWorkerSet/serve", "", gangOn, "replicas: 2, leaderWorkerTemplate: {size: 4}")
	runs, waits := w.serving("serve-0", "0", "0", "", 0), w.serving("serve-1", "1", "0", "", 0)
	w.group(runs)
	key, _ := w.GroupOf(waits)
	runs.Spec.NodeName = "node-0"
	w.moved = nil
	w.object("LeaderWorkerSet/serve", "", gangOn, "replicas: 2, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4}")
	if w.group(runs) != "serve-0" || w.group(waits) != "" || !slices.Equal(w.moved, []string{"serve-1"}) {
		t.Errorf("the leader that runs is in %q, and the other in %q; told %q", w.group(runs), w.group(waits), w.moved)
	}
	if g, _ := w.Group(key); g.MinCount != 3 || g.Note != "" {
		t.Errorf("the group of the other is %+v", g)
	}
	first, _ := w.GroupOf(runs)
	if g, _ := w.Group(first); g.MinCount != 4 || !strings.Contains(g.Note, "has changed") {
		t.Errorf("the group of the one that runs is %+v", g)
	}
	runs.Spec.NodeName = ""
	w.Sweep()
	if g, _ := w.Group(first); w.group(runs) != "" || g.MinCount != 3 || g.Note != "" {
		t.Errorf("once it runs no more it is in %q, and its group is %+v", w.group(runs), g)
	}
}

// TestRolesOfAnotherScheduler checks that gangs do not include roles of the default scheduler. If
// no template names a scheduler, all roles count, because a webhook may set the scheduler of the
// pods.
func TestRolesOfAnotherScheduler(t *testing.T) {
	t.Parallel()
	const ours = "template: {spec: {schedulerName: " + profile + "}}"
	for name, tt := range map[string]struct {
		head, workers, of string
		want              int
		alone             bool
	}{
		"the head names another":        {"template: {spec: {schedulerName: default-scheduler}}", ours, "gpu", 4, true},
		"the head names none":           {"template: {spec: {}}", ours, "gpu", 4, true},
		"both name ours":                {ours, ours, "gpu", 5, false},
		"neither names any":             {"template: {spec: {}}", "template: {spec: {}}", "gpu", 5, false},
		"nothing is said of the head":   {"", ours, "gpu", 4, true},
		"both name another":             {"template: {spec: {schedulerName: d}}", "template: {spec: {schedulerName: d}}", "gpu", 5, false},
		"the workers are for the other": {ours, "template: {spec: {schedulerName: d}}", "headgroup", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, "RayCluster")
			w.object("RayCluster/ray", "", gangOn, "headGroupSpec: {"+tt.head+"}, workerGroupSpecs: [{groupName: gpu, replicas: 4, "+tt.workers+"}]")
			pod := w.pod("p", "RayCluster/ray", "ray.io/group", tt.of, "ray.io/node-type", "worker")
			if got := w.needs(pod); got != tt.want {
				t.Errorf("its group needs %d, want %d", got, tt.want)
			}
			head := w.pod("head", "RayCluster/ray", "ray.io/group", "headgroup", "ray.io/node-type", "head")
			if got := w.group(head) == ""; got != tt.alone {
				t.Errorf("a head that comes to us all the same starts by itself: %t", got)
			}
		})
	}
}

// TestExclusivePlacement checks that a gang does not include pods that are created only after other
// members have a node.
func TestExclusivePlacement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "JobSet", "Job", "LeaderWorkerSet")
	const annotations = gangOn + ", alpha.jobset.sigs.k8s.io/exclusive-topology: rack"
	w.object("JobSet/set", "", annotations, "replicatedJobs: [{name: a, replicas: 2, template: {spec: {parallelism: 3}}}]")
	pod := w.pod("set-a-0-0", "JobSet/set", "jobset.sigs.k8s.io/replicatedjob-name", "a")
	w.held(pod, ReasonNotGroupable, "role a", "exclusive placement", `reprieve.dev/gang to "false"`)
	w.object("JobSet/set", "", annotations, "replicatedJobs: [{name: a, replicas: 2, template: {spec: {parallelism: 1}}}]")
	if got := w.needs(pod); got != 2 {
		t.Errorf("a JobSet of Jobs of one needs %d", got)
	}
	w.object("JobSet/set", "", gangOn, "replicatedJobs: [{name: a, template: {spec: {template: {spec: {schedulerName: "+profile+"}}}}}, "+
		"{name: b, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {parallelism: 3}}}]")
	if got := w.needs(pod); got != 1 {
		t.Errorf("beside such a role of another scheduler's it needs %d", got)
	}
	w.object("LeaderWorkerSet/serve", "", gangOn+", leaderworkerset.sigs.k8s.io/exclusive-topology: rack", "leaderWorkerTemplate: {size: 4}")
	leader, worker := w.serving("serve-0", "0", "0", "4", 0), w.serving("serve-0-1", "0", "1", "4", 0)
	if group := w.group(leader); group != "" || w.needs(worker) != 3 {
		t.Errorf("the leader is in %q, and the workers need %d", group, w.needs(worker))
	}
}
