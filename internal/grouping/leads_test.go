package grouping

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLeads checks which pods are drivers according to their objects, and how many workers they
// need.
func TestLeads(t *testing.T) {
	t.Parallel()
	const unit, worker, name = "leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/worker-index", "leaderworkerset.sigs.k8s.io/name"
	const sparkName, rayGroup = "sparkoperator.k8s.io/app-name", "ray.io/group"
	w := newWorld(t, false, "Job", "LeaderWorkerSet", "RayJob", "RayCluster", "SparkApplication")
	w.object("SparkApplication/spark", "", gangOn, "executor: {instances: 3}")
	w.object("SparkApplication/dynamic", "", gangOn, "executor: {instances: 3}, dynamicAllocation: {enabled: true, minExecutors: 0}")
	w.object("SparkApplication/single", "", "", "executor: {instances: 3}")
	w.object("LeaderWorkerSet/ready", "", gangOn, "replicas: 2, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4}")
	w.object("LeaderWorkerSet/serve", "", gangOn, "replicas: 2, leaderWorkerTemplate: {size: 4}")
	const scales = "enableInTreeAutoscaling: true, workerGroupSpecs: [{groupName: gpu, replicas: 0, minReplicas: 0, maxReplicas: 5}]"
	w.object("RayJob/ray", "", gangOn, "rayClusterSpec: {"+scales+"}")
	w.Set(schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}, clusterOf(t, "RayJob/ray"))
	w.object("RayCluster/cluster", "", gangOn, scales)
	head := w.pod("head", "RayCluster/ray-1", rayGroup, "headgroup")
	for name, tt := range map[string]struct {
		pod     *corev1.Pod
		leads   bool
		workers int
		// group is the name of the workers' group, without its hash.
		group string
	}{
		"a driver of Spark":               {w.pod("1", "SparkApplication/spark", sparkName, "spark", "spark-role", "driver"), true, 3, "spark"},
		"one that scales by itself":       {w.pod("2", "SparkApplication/dynamic", sparkName, "dynamic", "spark-role", "driver"), true, 1, "dynamic"},
		"one whose executors are no gang": {w.pod("3", "SparkApplication/single", sparkName, "single", "spark-role", "driver"), true, 3, ""},
		"an executor":                     {w.pod("4", "Pod/driver", sparkName, "spark", "spark-role", "executor"), false, 0, ""},
		"a leader that has to be ready":   {w.pod("5", "StatefulSet/ready", name, "ready", unit, "1", worker, "0"), true, 3, "ready-1"},
		"a leader in its gang":            {w.pod("6", "StatefulSet/serve", name, "serve", unit, "0", worker, "0"), true, 0, ""},
		"the head of a RayJob":            {head, true, 1, "ray"},
		"the head of a RayCluster":        {w.pod("8", "RayCluster/cluster", rayGroup, "headgroup"), false, 0, ""},
		"a pod of nothing":                {w.pod("9", ""), false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lead, leads := w.Leads(tt.pod)
			var group []string
			for part := range strings.SplitSeq(lead.Group.Name, "-") {
				if len(part) != hashLength {
					group = append(group, part)
				}
			}
			if got := strings.Join(group, "-"); leads != tt.leads || lead.Workers != tt.workers || got != tt.group {
				t.Errorf("leads %v, %d workers of %q; want %v, %d of %q", leads, lead.Workers, got, tt.leads, tt.workers, tt.group)
			}
			if leads && lead.Workers > 0 && !w.MayLead(tt.pod) {
				t.Error("the index does not have it")
			}
		})
	}
}
