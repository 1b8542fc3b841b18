package groups

import (
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// crds has CRDs from the modules of the frameworks. crds/README.md lists them.
//
//go:embed crds/*.json.gz
var crds embed.FS

// serve creates the CRD of a framework.
func serve(s *stage.Stage, name string) {
	s.Helper()
	file, err := crds.Open("crds/" + name + ".json.gz")
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		s.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		s.Fatal(err)
	}
	s.ApplyText(string(text))
}

// framework is a test case: an object of a kind, and the pods that the operator of the framework
// creates for it.
type framework struct {
	// object is the object in YAML, without metadata. The test adds the name "root".
	object string
	// pods does the work of the operator: it creates the pods, with the operator's labels and owner
	// references.
	pods func(s *stage.Stage, root *unstructured.Unstructured)
	// These fields are about the pods of the object:
	//
	//   - need: the number of members that must be placed together
	//   - all: the number of pods
	//   - alone: the names of pods that start without the gang
	//   - members: the names of members begin with "root-" and an element of this list
	need    int32
	all     int
	alone   []string
	members []string
	// suspend is the path of the field below spec that suspends the object. It is empty if the test
	// does not suspend the object.
	suspend []string
}

// podTemplate is the pod template in the objects, in YAML.
const podTemplate = "{spec: {containers: [{name: c, image: registry.example/c:1}]}}"

// member creates a pod with labels, and optionally with an owner.
func member(s *stage.Stage, name string, labels map[string]string, owner *metav1.OwnerReference) *corev1.Pod {
	s.Helper()
	pod := stage.NewPod(s.Namespace, name, "", 1)
	pod.Labels = labels
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	s.Create(pod)
	return pod
}

// members creates count pods that the object root owns. Their names are the prefix and a number.
func members(s *stage.Stage, count int, prefix string, labels map[string]string, root *unstructured.Unstructured) {
	s.Helper()
	owner := ownedBy(root)
	for i := range count {
		member(s, fmt.Sprintf("%s%d", prefix, i), labels, &owner)
	}
}

func frameworks() map[string]framework {
	const torchRole, mpiRole, rayGroup, sparkName = "training.kubeflow.org/replica-type", "training.kubeflow.org/job-role", "ray.io/group", "sparkoperator.k8s.io/app-name"
	rayCluster := func(workers string) string {
		return "headGroupSpec: {rayStartParams: {}, template: " + podTemplate + "}, workerGroupSpecs: [{groupName: gpu, rayStartParams: {}, template: " + podTemplate + ", " + workers + "}]"
	}
	rayPods := func(s *stage.Stage, workers int, cluster *unstructured.Unstructured) {
		s.Helper()
		members(s, 1, "root-head-", map[string]string{rayGroup: "headgroup", "ray.io/cluster": cluster.GetName()}, cluster)
		members(s, workers, "root-gpu-worker-", map[string]string{rayGroup: "gpu", "ray.io/cluster": cluster.GetName()}, cluster)
	}
	jobSetRole := func(name string) string { return "jobset.sigs.k8s.io/replicatedjob-name: " + name }
	jobSet := "replicatedJobs: [{name: driver, template: {spec: {template: " + podTemplate + "}}}, " +
		"{name: worker, replicas: 2, template: {spec: {parallelism: 2, completions: 2, template: " + podTemplate + "}}}]"
	jobSetJobs := func(s *stage.Stage, root *unstructured.Unstructured) {
		s.Helper()
		job(s, "root-driver-0", "", jobSetRole("driver"), "parallelism: 1", ownedBy(root))
		job(s, "root-worker-0", "", jobSetRole("worker"), "parallelism: 2, completions: 2, completionMode: Indexed", ownedBy(root))
		job(s, "root-worker-1", "", jobSetRole("worker"), "parallelism: 2, completions: 2, completionMode: Indexed", ownedBy(root))
	}
	return map[string]framework{
		"a JobSet": {
			object: "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {" + jobSet + "}\n",
			pods:   jobSetJobs, need: 5, all: 5, members: []string{"driver-", "worker-"},
		},
		"a PyTorchJob": {
			object: "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: " + podTemplate + "}, Worker: {replicas: 3, template: " + podTemplate + "}}}\n",
			pods: func(s *stage.Stage, root *unstructured.Unstructured) {
				members(s, 1, "root-master-", map[string]string{torchRole: "master"}, root)
				members(s, 3, "root-worker-", map[string]string{torchRole: "worker"}, root)
			},
			need: 4, all: 4, members: []string{"master-", "worker-"}, suspend: []string{"runPolicy", "suspend"},
		},
		"an MPIJob": {
			object: "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nspec: {slotsPerWorker: 1, runPolicy: {}, mpiReplicaSpecs: {Launcher: {template: " + podTemplate + "}, Worker: {replicas: 2, template: " + podTemplate + "}}}\n",
			pods: func(s *stage.Stage, root *unstructured.Unstructured) {
				members(s, 2, "root-worker-", map[string]string{mpiRole: "worker"}, root)
				job(s, "root-launcher", "", mpiRole+": launcher", "parallelism: 1", ownedBy(root))
			},
			need: 3, all: 3, members: []string{"worker-", "launcher-"},
		},
		"an MPIJob whose launcher waits": {
			object: "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nspec: {launcherCreationPolicy: WaitForWorkersReady, slotsPerWorker: 1, runPolicy: {}, mpiReplicaSpecs: {Launcher: {template: " + podTemplate + "}, Worker: {replicas: 2, template: " + podTemplate + "}}}\n",
			pods: func(s *stage.Stage, root *unstructured.Unstructured) {
				members(s, 2, "root-worker-", map[string]string{mpiRole: "worker"}, root)
			},
			need: 2, all: 2, members: []string{"worker-"}, suspend: []string{"runPolicy", "suspend"},
		},
		"a RayCluster with fewer replicas than its minimum": {
			object: "apiVersion: ray.io/v1\nkind: RayCluster\nspec: {" + rayCluster("minReplicas: 2, maxReplicas: 4") + "}\n",
			pods:   func(s *stage.Stage, root *unstructured.Unstructured) { rayPods(s, 2, root) },
			need:   3, all: 3, members: []string{"head-", "gpu-"}, suspend: []string{"suspend"},
		},
		"a RayJob that scales by itself": {
			object: "apiVersion: ray.io/v1\nkind: RayJob\nspec: {entrypoint: run, rayClusterSpec: {enableInTreeAutoscaling: true, " + rayCluster("replicas: 3, minReplicas: 2, maxReplicas: 4") + "}}\n",
			pods: func(s *stage.Stage, root *unstructured.Unstructured) {
				cluster := create(s, "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: root-cluster}\nspec: {enableInTreeAutoscaling: true, "+
					rayCluster("replicas: 3, minReplicas: 2, maxReplicas: 4")+"}\n", ownedBy(root))
				rayPods(s, 3, cluster)
				job(s, "root-submitter", "", "", "parallelism: 1", ownedBy(root))
			},
			need: 3, all: 5, alone: []string{"root-submitter-"}, members: []string{"head-", "gpu-"},
		},
		"a SparkApplication": {
			object: "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nspec: {type: Scala, sparkVersion: 3.5.0, mode: cluster, mainApplicationFile: f, driver: {cores: 1}, executor: {instances: 3, cores: 1}}\n",
			pods: func(s *stage.Stage, root *unstructured.Unstructured) {
				owner := ownedBy(root)
				driver := member(s, "root-driver", map[string]string{sparkName: "root", "spark-role": "driver"}, &owner)
				by := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: driver.Name, UID: driver.UID, Controller: owner.Controller}
				for i := range 3 {
					member(s, fmt.Sprintf("root-exec-%d", i), map[string]string{sparkName: "root", "spark-role": "executor"}, &by)
				}
			},
			need: 3, all: 4, alone: []string{"root-driver"}, members: []string{"exec-"},
		},
		"the JobSet of a TrainJob": {
			object: "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {runtimeRef: {name: torch-distributed}, annotations: {" + on + "}, trainer: {numNodes: 4}}\n",
			pods: func(s *stage.Stage, root *unstructured.Unstructured) {
				set := create(s, "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: root, annotations: {"+on+"}}\n"+
					"spec: {replicatedJobs: [{name: node, template: {spec: {parallelism: 4, completions: 4, template: "+podTemplate+"}}}]}\n", ownedBy(root))
				job(s, "root-node-0", "", jobSetRole("node"), "parallelism: 4, completions: 4, completionMode: Indexed", ownedBy(set))
			},
			need: 4, all: 4, members: []string{"node-"},
		},
	}
}

// TestFrameworks tests an object of each framework. It uses the CRD of the framework, and pods like
// the pods of its operator. The gang must wait while one of its members has no room, and then be
// placed as a whole. Its PodGroup must be deleted with the object.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	s := startWith(t, "Job, JobSet, LeaderWorkerSet, MPIJob, PyTorchJob, RayCluster, RayJob, SparkApplication")
	for _, crd := range []string{
		"jobset.x-k8s.io_jobsets", "leaderworkerset.x-k8s.io_leaderworkersets", "kubeflow.org_pytorchjobs", "kubeflow.org_mpijobs",
		"ray.io_rayclusters", "ray.io_rayjobs", "sparkoperator.k8s.io_sparkapplications", "trainer.kubeflow.org_trainjobs",
	} {
		serve(s, crd)
	}
	for name, f := range frameworks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.runs(s.In(t))
		})
	}
	for name, test := range map[string]func(*stage.Stage){
		"a JobSet with a gang for each role":           jobSetPerRole,
		"a LeaderWorkerSet":                            leaderWorkerSet,
		"a LeaderWorkerSet whose workers wait":         leaderReady,
		"a LeaderWorkerSet with exclusive placement":   leaderPlaced,
		"a replica of a LeaderWorkerSet's old size":    oldSize,
		"Deployments and StatefulSets are never gangs": neverGangs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// runs tests the whole life of a framework's object.
func (f *framework) runs(s *stage.Stage) {
	s.AddNodes(int64(f.need)-1+int64(len(f.alone)), "a")
	text := strings.Replace(f.object, "spec:", "metadata: {name: root, annotations: {"+on+"}}\nspec:", 1)
	root := create(s, text)
	f.pods(s, root)
	for _, alone := range f.alone {
		s.Runs(alone, 1)
	}
	pg := group(s, "root-", "needs what its object says", needs(f.need))
	prefixes := make([]string, len(f.members))
	for i, name := range f.members {
		prefixes[i] = "root-" + name
	}
	noRoom(s, pg.Name, prefixes...)
	s.AddNodes(int64(f.all), "b")
	s.Runs("root-", f.all)
	if all := groups(s.Context(), s); len(all) != 1 {
		s.Errorf("there are %d PodGroups, want one", len(all))
	}
	if len(f.suspend) > 0 {
		f.suspends(s, root)
	}
	remove(s, root)
	none(s)
}

// suspends checks that the PodGroup is deleted after the object is suspended and its pods are gone.
func (f *framework) suspends(s *stage.Stage, root *unstructured.Unstructured) {
	s.Helper()
	before := root.DeepCopy()
	if err := unstructured.SetNestedField(root.Object, true, append([]string{"spec"}, f.suspend...)...); err != nil {
		s.Fatal(err)
	}
	if err := s.Objects.Patch(s.Context(), root, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	for _, pod := range s.Pods(s.Context(), "root-") {
		remove(s, &pod)
	}
	none(s)
}

// jobSetPerRole tests a JobSet with one gang for each role. A role must start before the other role
// has room.
func jobSetPerRole(s *stage.Stage) {
	s.AddNodes(2, "a")
	f := frameworks()["a JobSet"]
	root := create(s, strings.Replace(f.object, "spec:", "metadata: {name: root, annotations: {"+on+", reprieve.dev/gang-per: role}}\nspec:", 1))
	f.pods(s, root)
	s.Runs("root-driver-", 1)
	noRoom(s, group(s, "root-", "of the workers needs four", needs(4)).Name, "root-worker-")
	s.AddNodes(4, "b")
	s.Runs("root-", 5)
	if all := groups(s.Context(), s); len(all) != 2 {
		s.Errorf("there are %d PodGroups, want one for each role", len(all))
	}
	remove(s, root)
	none(s)
}

const lwsLabel = "leaderworkerset.sigs.k8s.io/"

// lws creates a LeaderWorkerSet with two replicas. size is the number of pods in each replica.
func lws(s *stage.Stage, annotations, startup string, size int) *unstructured.Unstructured {
	s.Helper()
	return create(s, fmt.Sprintf("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: serve, annotations: {%s}}\n"+
		"spec: {replicas: 2, startupPolicy: %s, leaderWorkerTemplate: {size: %d, workerTemplate: %s}}\n", annotations, startup, size, podTemplate))
}

// lwsPod creates a pod of a replica. It has the labels that the StatefulSets and the webhook of the
// framework set.
func lwsPod(s *stage.Stage, name, unit, index string) {
	s.Helper()
	member(s, name, map[string]string{lwsLabel + "name": "serve", lwsLabel + "group-index": unit, lwsLabel + "worker-index": index}, nil)
}

// leaderWorkerSet tests a LeaderWorkerSet with two replicas. Each replica must be a gang, and start
// before the other replica has room.
func leaderWorkerSet(s *stage.Stage) {
	s.AddNodes(8, "a")
	root := lws(s, on, "LeaderCreated", 2)
	lwsPod(s, "serve-0", "0", "0")
	lwsPod(s, "serve-1", "1", "0")
	lwsPod(s, "serve-1-1", "1", "1")
	s.Runs("serve-1", 2)
	group(s, "serve-", "of the second replica runs", func(pg *v1alpha1.PodGroup) bool {
		// The API server has set the default restartPolicy, RecreateGroupOnPodRestart. So the group
		// must be evicted as a whole.
		return pg.Status.Scheduled == 2 && minCount(pg) == 2 && ptr.Deref(pg.Spec.DisruptionMode, "") == v1alpha1.DisruptionModePodGroup
	})
	if pod := s.Pod("serve-0"); pod.Spec.NodeName != "" {
		s.Error("the leader of the first replica has started without its worker")
	}
	lwsPod(s, "serve-0-1", "0", "1")
	s.Runs("serve-", 4)
	if all := groups(s.Context(), s); len(all) != 2 {
		s.Errorf("there are %d PodGroups, want one for each replica", len(all))
	}
	before := root.DeepCopy()
	if err := unstructured.SetNestedField(root.Object, int64(1), "spec", "replicas"); err != nil {
		s.Fatal(err)
	}
	if err := s.Objects.Patch(s.Context(), root, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	for _, name := range []string{"serve-1", "serve-1-1"} {
		remove(s, s.Pod(name))
	}
	s.Eventually("the group of the second replica goes with it", func(ctx context.Context) string {
		if all := groups(ctx, s); len(all) != 1 {
			return fmt.Sprintf("there are %d", len(all))
		}
		return ""
	})
}

// leaderReady tests the startup policy LeaderReady. The leader must start alone. The workers, which
// are created later, must be a gang.
func leaderReady(s *stage.Stage) { leaderFirst(s, on, "LeaderReady") }

// leaderPlaced tests exclusive placement: the workers are created after their leader has a node.
// The leader must start alone, and the workers must be a gang.
func leaderPlaced(s *stage.Stage) {
	leaderFirst(s, on+", "+lwsLabel+"exclusive-topology: kubernetes.io/hostname", "LeaderCreated")
}

// oldSize changes the number of pods in each replica of a LeaderWorkerSet. A rollout replaces one
// replica after another. If the pods of a replica are created again with the old size, before the
// rollout reaches the replica, its gang must have the old size.
func oldSize(s *stage.Stage) {
	s.AddNodes(8, "a")
	root := lws(s, on, "LeaderCreated", 2)
	pods := func() {
		for _, index := range []string{"0", "1"} {
			pod := stage.NewPod(s.Namespace, "serve-0-"+index, "", 1)
			pod.Labels = map[string]string{lwsLabel + "name": "serve", lwsLabel + "group-index": "0", lwsLabel + "worker-index": index}
			pod.Annotations = map[string]string{lwsLabel + "size": "2"}
			s.Create(pod)
		}
	}
	pods()
	s.Runs("serve-", 2)
	before := root.DeepCopy()
	if err := unstructured.SetNestedField(root.Object, int64(4), "spec", "leaderWorkerTemplate", "size"); err != nil {
		s.Fatal(err)
	}
	if err := s.Objects.Patch(s.Context(), root, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	for _, pod := range s.Pods(s.Context(), "serve-") {
		remove(s, &pod)
	}
	pods()
	s.Runs("serve-", 2)
	group(s, "serve-", "needs two", needs(2))
}

func leaderFirst(s *stage.Stage, annotations, startup string) {
	s.Helper()
	s.AddNodes(2, "a")
	lws(s, annotations, startup, 3)
	lwsPod(s, "serve-0", "0", "0")
	s.Runs("serve-0", 1)
	lwsPod(s, "serve-0-1", "0", "1")
	lwsPod(s, "serve-0-2", "0", "2")
	noRoom(s, group(s, "serve-", "of the workers needs two", needs(2)).Name, "serve-0-")
	s.AddNodes(1, "b")
	s.Runs("serve-0", 3)
}

// neverGangs tests Deployments and StatefulSets with the annotation that requests a gang. Their
// pods must be placed one by one.
func neverGangs(s *stage.Stage) {
	s.AddNodes(4, "a")
	template := func(app string) string {
		return fmt.Sprintf("{metadata: {labels: {app: %s}}, spec: {schedulerName: %s, terminationGracePeriodSeconds: 0, nodeSelector: {%s: %s}, containers: [{name: c, image: registry.example/c:1, resources: {requests: {cpu: 1}}}]}}",
			app, stage.Profile, stage.OwnerLabel, s.Namespace)
	}
	create(s, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {"+on+"}}\nspec: {replicas: 2, selector: {matchLabels: {app: web}}, template: "+template("web")+"}\n")
	s.Runs("web-", 2)
	create(s, "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: store, annotations: {"+on+"}}\nspec: {replicas: 6, podManagementPolicy: Parallel, selector: {matchLabels: {app: store}}, template: "+template("store")+"}\n")
	place(s, "two of six run", "store-", 2)
	none(s)
}
