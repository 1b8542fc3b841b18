package grouping

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
)

// objectFrom parses YAML to an object in the form that informers have, with numbers as int64.
func objectFrom(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestRead(t *testing.T) {
	t.Parallel()
	const (
		job    = "apiVersion: batch/v1\nkind: Job\nspec: "
		jobSet = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: "
		lws    = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nspec: "
		torch  = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: "
		ray    = "apiVersion: ray.io/v1\nkind: RayCluster\nspec: "
		rayJob = "apiVersion: ray.io/v1\nkind: RayJob\nspec: "
		mpi    = "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nspec: "
		spark  = "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nspec: "
	)
	exclusive := func(annotations string) string {
		return "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {annotations: {" + annotations + "}}\nspec: " +
			"{replicatedJobs: [{name: a, replicas: 2, template: {spec: {}}}, {name: b, replicas: 2, template: {spec: {parallelism: 3}}}]}"
	}
	tests := map[string]struct {
		object string
		want   Reading
	}{
		"a Job that says nothing":               {job + "{template: {}}", Reading{Units: 1, Roles: []Size{{Count: 1}}}},
		"a Job of four":                         {job + "{parallelism: 4, completionMode: Indexed, completions: 4}", Reading{Units: 1, Roles: []Size{{Count: 4}}}},
		"a Job with fewer left to complete":     {job + "{parallelism: 8, completions: 3}", Reading{Units: 1, Roles: []Size{{Count: 3}}}},
		"a Job with more to complete than run":  {job + "{parallelism: 4, completions: 100}", Reading{Units: 1, Roles: []Size{{Count: 4}}}},
		"a Job that is suspended":               {job + "{suspend: true, parallelism: 4}", Reading{Suspended: true, Units: 1, Roles: []Size{{Count: 4}}}},
		"a Job of none":                         {job + "{parallelism: 0}", Reading{Units: 1, Roles: []Size{{}}}},
		"a Job with nonsense for a parallelism": {job + "{parallelism: many}", Reading{Units: 1, Flaw: "spec.parallelism is many, which is no number"}},
		"a JobSet of two roles": {
			jobSet + "{replicatedJobs: [{name: driver, template: {spec: {parallelism: 1, completions: 1}}}, {name: workers, replicas: 2, template: {spec: {parallelism: 4, completions: 4}}}]}",
			Reading{Units: 1, Roles: []Size{{Name: "driver", Count: 1}, {Name: "workers", Count: 8}}},
		},
		"a JobSet that starts in order": {
			jobSet + "{startupPolicy: {startupPolicyOrder: InOrder}, replicatedJobs: [{name: a, template: {spec: {}}}]}",
			Reading{Units: 1, InOrder: true, Roles: []Size{{Name: "a", Count: 1}}},
		},
		"a JobSet that starts in any order": {
			jobSet + "{suspend: true, startupPolicy: {startupPolicyOrder: AnyOrder}, replicatedJobs: [{name: a, replicas: 3, template: {spec: {}}}]}",
			Reading{Units: 1, Suspended: true, Roles: []Size{{Name: "a", Count: 3}}},
		},
		"a JobSet with a role that depends on another": {
			jobSet + "{replicatedJobs: [{name: a, template: {spec: {}}}, {name: b, dependsOn: [{name: a, status: Ready}], template: {spec: {}}}]}",
			Reading{Units: 1, InOrder: true, Roles: []Size{{Name: "a", Count: 1}, {Name: "b", Count: 1}}},
		},
		"a LeaderWorkerSet": {
			lws + "{replicas: 3, startupPolicy: LeaderCreated, leaderWorkerTemplate: {size: 4}}",
			Reading{Units: 3, Roles: []Size{{Name: "0", Count: 1}, {Name: AnyName, Count: 3}}},
		},
		"a LeaderWorkerSet whose leader comes first": {
			lws + "{replicas: 3, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 4}}",
			Reading{Units: 3, Roles: []Size{{Name: "0", Count: 1, Alone: true}, {Name: AnyName, Count: 3}}},
		},
		"a LeaderWorkerSet with exclusive placement": {
			"apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}}\nspec: {leaderWorkerTemplate: {size: 4}}",
			Reading{Units: 1, Roles: []Size{{Name: "0", Count: 1, Alone: true}, {Name: AnyName, Count: 3}}},
		},
		"a LeaderWorkerSet that makes whole replicas again": {
			lws + "{leaderWorkerTemplate: {size: 4, restartPolicy: RecreateGroupOnPodRestart}}",
			Reading{Units: 1, Whole: true, Roles: []Size{{Name: "0", Count: 1}, {Name: AnyName, Count: 3}}},
		},
		"a LeaderWorkerSet that does so once all have started": {
			lws + "{leaderWorkerTemplate: {size: 4, restartPolicy: RecreateGroupAfterStart}}",
			Reading{Units: 1, Whole: true, Roles: []Size{{Name: "0", Count: 1}, {Name: AnyName, Count: 3}}},
		},
		"a LeaderWorkerSet that makes single pods again": {
			lws + "{leaderWorkerTemplate: {size: 4, restartPolicy: None}}",
			Reading{Units: 1, Roles: []Size{{Name: "0", Count: 1}, {Name: AnyName, Count: 3}}},
		},
		"a LeaderWorkerSet of one template": {
			lws + "{leaderWorkerTemplate: {size: 4, workerTemplate: {spec: {schedulerName: s}}}}",
			Reading{Units: 1, Roles: []Size{{Name: "0", Count: 1, Scheduler: "s"}, {Name: AnyName, Count: 3, Scheduler: "s"}}},
		},
		"a LeaderWorkerSet of two": {
			lws + "{leaderWorkerTemplate: {size: 4, leaderTemplate: {spec: {}}, workerTemplate: {spec: {schedulerName: s}}}}",
			Reading{Units: 1, Roles: []Size{{Name: "0", Count: 1}, {Name: AnyName, Count: 3, Scheduler: "s"}}},
		},
		"a JobSet with exclusive placement": {
			exclusive("alpha.jobset.sigs.k8s.io/exclusive-topology: rack"), Reading{Units: 1, Roles: []Size{{Name: "a", Count: 2}, {Name: "b", Count: 6, Led: true}}},
		},
		"a JobSet with exclusive placement on labeled nodes": {
			exclusive("alpha.jobset.sigs.k8s.io/exclusive-topology: rack, alpha.jobset.sigs.k8s.io/node-selector: 'true'"),
			Reading{Units: 1, Roles: []Size{{Name: "a", Count: 2}, {Name: "b", Count: 6}}},
		},
		"a JobSet with exclusive placement of one role": {
			jobSet + "{replicatedJobs: [{name: a, template: {spec: {parallelism: 2}}}, " +
				"{name: b, template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {parallelism: 2}}}]}",
			Reading{Units: 1, Roles: []Size{{Name: "a", Count: 2}, {Name: "b", Count: 2, Led: true}}},
		},
		"a LeaderWorkerSet of leaders": {lws + "{leaderWorkerTemplate: {}}", Reading{Units: 1, Roles: []Size{{Name: "0", Count: 1}, {Name: AnyName}}}},
		"a JobSet whose driver is for another scheduler": {
			jobSet + "{replicatedJobs: [{name: driver, template: {spec: {template: {spec: {schedulerName: d}}}}}, {name: worker, template: {spec: {template: {spec: {schedulerName: s}}}}}]}",
			Reading{Units: 1, Roles: []Size{{Name: "driver", Count: 1, Scheduler: "d"}, {Name: "worker", Count: 1, Scheduler: "s"}}},
		},
		"a PyTorchJob whose workers name their scheduler": {
			torch + "{pytorchReplicaSpecs: {Master: {template: {spec: {}}}, Worker: {replicas: 3, template: {spec: {schedulerName: s}}}}}",
			Reading{Units: 1, Roles: []Size{{Name: "master", Count: 1}, {Name: "worker", Count: 3, Scheduler: "s"}}},
		},
		"an MPIJob whose workers name their scheduler": {
			mpi + "{mpiReplicaSpecs: {Launcher: {template: {spec: {schedulerName: d}}}, Worker: {replicas: 3, template: {spec: {schedulerName: s}}}}}",
			Reading{Units: 1, Roles: []Size{{Name: "launcher", Count: 1, Scheduler: "d"}, {Name: "worker", Count: 3, Scheduler: "s"}}},
		},
		"a RayJob whose workers name their scheduler": {
			rayJob + "{rayClusterSpec: {headGroupSpec: {template: {spec: {}}}, workerGroupSpecs: [{groupName: gpu, replicas: 4, template: {spec: {schedulerName: s}}}]}}",
			Reading{Units: 1, Roles: []Size{{Alone: true}, {Name: "headgroup", Count: 1}, {Name: "gpu", Count: 4, Scheduler: "s"}}},
		},
		"a PyTorchJob": {
			torch + "{runPolicy: {suspend: true}, pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 3}}}",
			Reading{Suspended: true, Units: 1, Roles: []Size{{Name: "master", Count: 1}, {Name: "worker", Count: 3}}},
		},
		"a RayCluster": {
			ray + "{headGroupSpec: {}, workerGroupSpecs: [{groupName: gpu, replicas: 4, minReplicas: 1, maxReplicas: 8, numOfHosts: 2}]}",
			Reading{Units: 1, Roles: []Size{{Alone: true}, {Name: "headgroup", Count: 1}, {Name: "gpu", Count: 8}}},
		},
		"a RayCluster that scales by itself": {
			ray + "{enableInTreeAutoscaling: true, workerGroupSpecs: [{groupName: gpu, replicas: 4, minReplicas: 1}, {groupName: cpu, replicas: 2, minReplicas: 0}]}",
			Reading{Units: 1, Roles: []Size{{Alone: true}, {Name: "headgroup", Count: 1}, {Name: "gpu", Count: 1}, {Name: "cpu", MayCome: true}}},
		},
		"a Job of which two are done, and one has failed for good": {
			"apiVersion: batch/v1\nkind: Job\nspec: {parallelism: 4, completions: 5}\nstatus: {succeeded: 2, failedIndexes: '3'}",
			Reading{Units: 1, Roles: []Size{{Count: 4, Over: 2}}},
		},
		"a RayCluster within its bounds, with a group that is suspended": {
			ray + "{workerGroupSpecs: [{groupName: gpu, replicas: 0, minReplicas: 2, maxReplicas: 9}, {groupName: cpu, replicas: 5, minReplicas: 0, maxReplicas: 3}, {groupName: idle, replicas: 4, suspend: true}]}",
			Reading{Units: 1, Roles: []Size{{Alone: true}, {Name: "headgroup", Count: 1}, {Name: "gpu", Count: 2}, {Name: "cpu", Count: 3}, {Name: "idle"}}},
		},
		"a SparkApplication that may let all executors go": {
			spark + "{dynamicAllocation: {enabled: true}, executor: {instances: 5}}",
			Reading{Units: 1, Roles: []Size{{Name: "driver", Alone: true}, {Name: "executor", Count: 1}}},
		},
		"an MPIJob": {
			mpi + "{mpiReplicaSpecs: {Launcher: {template: {}}, Worker: {replicas: 3}}}",
			Reading{Units: 1, Roles: []Size{{Name: "launcher", Count: 1}, {Name: "worker", Count: 3}}},
		},
		"an MPIJob of a launcher": {
			mpi + "{mpiReplicaSpecs: {Launcher: {replicas: 1}}}", Reading{Units: 1, Roles: []Size{{Name: "launcher", Count: 1}}},
		},
		"an MPIJob whose launcher waits for its workers": {
			mpi + "{launcherCreationPolicy: WaitForWorkersReady, runPolicy: {suspend: true}, mpiReplicaSpecs: {Launcher: {}, Worker: {replicas: 3}}}",
			Reading{Suspended: true, Units: 1, Roles: []Size{{Name: "launcher", Count: 1, Alone: true}, {Name: "worker", Count: 3}}},
		},
		"a RayJob": {
			rayJob + "{rayClusterSpec: {workerGroupSpecs: [{groupName: gpu, replicas: 4}]}}",
			Reading{Units: 1, Roles: []Size{{Alone: true}, {Name: "headgroup", Count: 1}, {Name: "gpu", Count: 4}}},
		},
		"a SparkApplication": {
			spark + "{driver: {cores: 1}, executor: {instances: 5}}",
			Reading{Units: 1, Roles: []Size{{Name: "driver", Alone: true}, {Name: "executor", Count: 5}}},
		},
		"a SparkApplication that scales by itself": {
			spark + "{dynamicAllocation: {enabled: true, minExecutors: 2, maxExecutors: 9}, executor: {instances: 5}}",
			Reading{Units: 1, Roles: []Size{{Name: "driver", Alone: true}, {Name: "executor", Count: 2}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := objectFrom(t, tt.object)
			rule := BuiltIn()[u.GetKind()]
			kind := Kind{rule: rule}
			got := rule.Read(kind.Reduce(u))
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("it reads %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestFinished checks which statuses of objects mean that no more pods will be created.
func TestFinished(t *testing.T) {
	t.Parallel()
	conditions := func(of, status string) string {
		return "{conditions: [{type: Suspended, status: 'False'}, {type: " + of + ", status: '" + status + "', message: secret}]}"
	}
	for name, c := range map[string]struct {
		kind, status string
		want         bool
	}{
		"a Job that is complete":             {"Job", conditions("Complete", "True"), true},
		"a Job that has failed":              {"Job", conditions("Failed", "True"), true},
		"a Job that has not":                 {"Job", conditions("Failed", "False"), false},
		"a Job that is about to":             {"Job", conditions("FailureTarget", "True"), false},
		"a Job without a status":             {"Job", "{}", false},
		"a Job with nonsense for conditions": {"Job", "{conditions: [7, {type: 7, status: 'True'}]}", false},
		"a JobSet":                           {"JobSet", conditions("Completed", "True"), true},
		"an MPIJob":                          {"MPIJob", conditions("Succeeded", "True"), true},
		"a PyTorchJob that has failed":       {"PyTorchJob", conditions("Failed", "True"), true},
		"a PyTorchJob that runs":             {"PyTorchJob", conditions("Running", "True"), false},
		"a RayJob":                           {"RayJob", "{jobDeploymentStatus: Complete}", true},
		"a RayJob that is tried again":       {"RayJob", "{jobDeploymentStatus: Retrying}", false},
		"a SparkApplication":                 {"SparkApplication", "{applicationState: {state: FAILED}}", true},
		"a SparkApplication that runs":       {"SparkApplication", "{applicationState: {state: RUNNING}}", false},
		"a RayCluster, which never is":       {"RayCluster", conditions("Failed", "True"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := BuiltIn()[c.kind]
			u := objectFrom(t, "apiVersion: "+rule.Kind.GroupVersion().String()+"\nkind: "+c.kind+"\nstatus: "+c.status+"\n")
			kind := Kind{rule: rule}
			if got := rule.Read(kind.Reduce(u)).Finished; got != c.want {
				t.Errorf("it is finished: %t", got)
			}
		})
	}
}

// TestKindsAreBuiltIn checks that the configuration accepts exactly the kinds with a built-in rule.
func TestKindsAreBuiltIn(t *testing.T) {
	t.Parallel()
	var kinds []string
	for kind, rule := range BuiltIn() {
		kinds = append(kinds, kind)
		if rule.Kind.Kind != kind || rule.Resource != strings.ToLower(kind)+"s" {
			t.Errorf("the rule for %s is for %s, %s", kind, rule.Kind, rule.Resource)
		}
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, configv1alpha1.KnownKinds()) {
		t.Errorf("there are rules for %q, and the configuration allows %q", kinds, configv1alpha1.KnownKinds())
	}
}

func TestRulesOfOperators(t *testing.T) {
	t.Parallel()
	trainer := configv1alpha1.GroupRule{
		APIVersion: "example.com/v1", Kind: "Trainer", Resource: "trainers", Suspend: "spec.paused", RoleLabel: "example.com/role",
		Roles: []configv1alpha1.GroupRole{
			{Name: "worker", Replicas: "spec.workers.count", Minimum: "spec.workers.least"}, {Name: "logger", Alone: true},
		},
	}
	rules, err := FromArgs(&configv1alpha1.GroupArgs{Kinds: []string{"Job"}, Rules: []configv1alpha1.GroupRule{trainer}})
	if err != nil || len(rules) != 2 {
		t.Fatalf("got %d rules, error %v", len(rules), err)
	}
	for text, want := range map[string]Reading{
		"spec: {paused: true, workers: {count: 5}}": {Suspended: true, Units: 1, Roles: []Size{{Name: "worker", Count: 5}, {Name: "logger", Alone: true}}},
		"spec: {workers: {count: 5, least: 2}}":     {Units: 1, Roles: []Size{{Name: "worker", Count: 2}, {Name: "logger", Alone: true}}},
		"spec: {workers: 5}":                        {Units: 1, Flaw: "spec.workers.count matches nothing"},
		"spec: {workers: {count: -1}}":              {Units: 1, Flaw: "spec.workers.count is -1"},
	} {
		if got := rules[1].Read(objectFrom(t, "apiVersion: example.com/v1\nkind: Trainer\n"+text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads %+v, want %+v", text, got, want)
		}
	}

	// The tasks of a Volcano Job are a list, and a path of a rule cannot select one task of a list.
	// So the rule uses the total of all tasks.
	volcano, err := FromArgs(&configv1alpha1.GroupArgs{Kinds: []string{"Job"}, Rules: []configv1alpha1.GroupRule{{
		APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Resource: "jobs", Roles: []configv1alpha1.GroupRole{{Name: "task", Replicas: "spec.minAvailable"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	tasks := "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {minAvailable: 3, tasks: [{name: a, replicas: 1}, {name: b, replicas: 4}]}"
	if got, want := volcano[1].Read(objectFrom(t, tasks)), (Reading{Units: 1, Roles: []Size{{Name: "task", Count: 3}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("a VolcanoJob reads %+v, want %+v", got, want)
	}

	again := trainer
	again.APIVersion, again.Kind = "batch/v1", "Job"
	_, err = FromArgs(&configv1alpha1.GroupArgs{Kinds: []string{"Job"}, Rules: []configv1alpha1.GroupRule{again}})
	if err == nil || !strings.Contains(err.Error(), "Job.batch has a rule already") {
		t.Errorf("two rules for Jobs: %v", err)
	}
	if _, err := FromArgs(&configv1alpha1.GroupArgs{Kinds: []string{"Deployment"}}); err == nil || !strings.Contains(err.Error(), "Deployment has no rule") {
		t.Errorf("a rule for Deployments: %v", err)
	}

	for text, want := range map[string]int64{"": 0, "3": 1, "0,2-4": 4, "0-1,7,9-9": 4, "x": 0, "5-2": 0} {
		if got := indexes(text); got != want {
			t.Errorf("%q has %d indexes, want %d", text, got, want)
		}
	}

	other := trainer
	other.RoleLabel = "example.com/other"
	theirs, err := FromArgs(&configv1alpha1.GroupArgs{Rules: []configv1alpha1.GroupRule{other}})
	if err != nil {
		t.Fatal(err)
	}
	profiles := map[string]*Settings{"a": NewSettings(rules, false), "b": NewSettings(theirs, false)}
	if _, err := NewResolver(profiles, nil); err == nil || !strings.Contains(err.Error(), "Trainer.example.com has another rule in profile a") {
		t.Errorf("profiles with two rules for one kind: %v", err)
	}
}
