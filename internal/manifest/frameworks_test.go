package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/manifest"
)

const everyKind = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: reprieve-scheduler
  plugins:
    multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}
    queueSort: {enabled: [{name: ReprievePrioritySort}], disabled: [{name: PrioritySort}]}
    preFilter: {enabled: [{name: Reprieve}]}
  pluginConfig:
  - {name: Reprieve, args: {groups: {kinds: [Job, JobSet, LeaderWorkerSet, MPIJob, PyTorchJob, RayCluster, RayJob, SparkApplication]}}}
`

// TestFrameworks checks that the objects of each framework result in the pods that the framework's
// operator creates. A scheduler that supports all kinds groups these pods into gangs. For kinds
// whose pods are unknown, the submission must give the reason.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	const gang = "annotations: {reprieve.dev/gang: 'true'}"
	torch := "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: x, " + gang + "}\nspec: {%spytorchReplicaSpecs: {Master: {template: " + template + "}, Worker: {replicas: 3, template: " + template + "}}}\n"
	mpi := "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: x, " + gang + "}\nspec: {%smpiReplicaSpecs: {Launcher: {template: " + template + "}, Worker: {replicas: 2, template: " + template + "}}}\n"
	cluster := "headGroupSpec: {template: " + template + "}, workerGroupSpecs: [{groupName: gpu, %s, template: " + template + "}, {groupName: spare, suspend: true, replicas: 2, template: " + template + "}]"
	ray := "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: x, " + gang + "}\nspec: {" + cluster + "}\n"
	rayJob := "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: x, " + gang + "}\nspec: {rayClusterSpec: {" + cluster + "}}\n"
	for name, c := range map[string]struct {
		text string
		vary manifest.Variation
		// want lists the workloads. Each has kind/name, the number of pods, whether it is a gang,
		// and the names of the pods.
		want string
		// wantNeeds is the gang's minCount.
		wantNeeds   int32
		wantUnknown string
	}{
		"a PyTorchJob":               {text: fmt.Sprintf(torch, ""), want: "PyTorchJob/x 4 true x-master-0 x-worker-0 x-worker-1 x-worker-2", wantNeeds: 4},
		"a PyTorchJob, made smaller": {text: fmt.Sprintf(torch, ""), vary: manifest.Variation{Replicas: ptr.To[int32](1)}, want: "PyTorchJob/x 2 true x-master-0 x-worker-0", wantNeeds: 2},
		"a suspended PyTorchJob":     {text: fmt.Sprintf(torch, "runPolicy: {suspend: true}, ")},
		"an MPIJob":                  {text: fmt.Sprintf(mpi, ""), want: "MPIJob/x 3 true x-launcher-0 x-worker-0 x-worker-1", wantNeeds: 3},
		"an MPIJob whose launcher waits": {
			text: fmt.Sprintf(mpi, "launcherCreationPolicy: WaitForWorkersReady, "),
			want: "MPIJob/x 1 false x-launcher-0; MPIJob/x 2 true x-worker-0 x-worker-1", wantNeeds: 2,
		},
		"a RayCluster":                          {text: fmt.Sprintf(ray, "replicas: 2"), want: "RayCluster/x 3 true x-gpu-worker-0 x-gpu-worker-1 x-head-0", wantNeeds: 3},
		"a RayCluster that asks for no workers": {text: fmt.Sprintf(ray, "maxReplicas: 4"), want: "RayCluster/x 1 true x-head-0", wantNeeds: 1},
		"a RayCluster below its minimum":        {text: fmt.Sprintf(ray, "minReplicas: 1, numOfHosts: 2"), want: "RayCluster/x 3 true x-gpu-worker-0 x-gpu-worker-1 x-head-0", wantNeeds: 3},
		"a RayCluster, made larger": {
			text: fmt.Sprintf(ray, "replicas: 1, maxReplicas: 1"), vary: manifest.Variation{Replicas: ptr.To[int32](2)},
			want: "RayCluster/x 3 true x-gpu-worker-0 x-gpu-worker-1 x-head-0", wantNeeds: 3,
		},
		"a RayJob":           {text: fmt.Sprintf(rayJob, "replicas: 1"), want: "RayJob/x 2 true x-cluster-gpu-worker-0 x-cluster-head-0", wantNeeds: 2},
		"a SparkApplication": {text: "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {name: x}\nspec: {}\n", wantUnknown: "SparkApplication/x: the Spark operator writes"},
		"a TrainJob":         {text: "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: x}\nspec: {}\n", wantUnknown: "TrainJob/x: its pods come from a runtime"},
		"a CronJob":          {text: "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\nspec: {schedule: '* * * * *', jobTemplate: {}}\n", wantUnknown: "CronJob/x: it makes a Job now and then"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := submitAll(t, c.text, c.vary)
			var got []string
			for _, w := range s.Workloads {
				var names []string
				for _, pod := range w.Pods {
					names = append(names, pod.Name)
				}
				slices.Sort(names)
				got = append(got, fmt.Sprintf("%s/%s %d %t %s", w.Kind, w.Name, len(w.Pods), w.Gang, strings.Join(names, " ")))
			}
			slices.Sort(got)
			if strings.Join(got, "; ") != c.want {
				t.Errorf("The workloads are %q, want %q", strings.Join(got, "; "), c.want)
			}
			groups, err := inventory.Decode[*v1alpha1.PodGroup](s.Objects, inventory.PodGroups)
			if err != nil {
				t.Fatal(err)
			}
			if c.wantNeeds == 0 != (len(groups) == 0) || len(groups) == 1 && groups[0].Spec.SchedulingPolicy.Gang.MinCount != c.wantNeeds {
				t.Errorf("There are %d PodGroups, %+v; want one that needs %d", len(groups), groups, c.wantNeeds)
			}
			if unknown := strings.Join(s.Unknown, "; "); c.wantUnknown == "" != (unknown == "") || !strings.HasPrefix(unknown, c.wantUnknown) || len(s.Ignored) > 0 {
				t.Errorf("Unknown is %q, want %q; ignored is %q", unknown, c.wantUnknown, s.Ignored)
			}
		})
	}
}

// submitAll submits a file to a scheduler that derives groups for every kind that Reprieve
// supports.
func submitAll(t *testing.T, text string, vary manifest.Variation) *manifest.Submission {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(everyKind), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := schedulerapp.LoadConfig(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := derived.Roots(cfg)
	if err != nil {
		t.Fatal(err)
	}
	documents, err := manifest.Read("file.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	vary.Namespace, vary.QueueLabel = "team", v1alpha1.LabelQueue
	s, err := manifest.Submit(t.Context(), stock(t).WithRoots(roots), cfg, documents, vary)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
