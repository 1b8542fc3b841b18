package grouping

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
)

// BuiltIn returns the built-in rules by kind. There are no rules for Deployments and StatefulSets,
// because their pods can start without each other.
func BuiltIn() map[string]*Rule {
	job := Through{schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, "jobs"}
	rayCluster := Through{schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayCluster"}, "rayclusters"}
	// Leave out the pod of the Redis cleanup Job. If Ray keeps its state in Redis, this Job deletes
	// that state after the pods of the RayCluster are deleted. Its pod has the template of the
	// head, but is not a member of the gang.
	rayCleanup := Label{"ray.io/node-type", "redis-cleanup"}
	const exclusive, labeled = "alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector"
	return map[string]*Rule{
		"Job": {
			Kind: job.Kind, Resource: job.Resource, Suspend: "spec.suspend", Ends: []string{"Complete", "Failed"},
			Roles: []Role{{
				Replicas: "spec.parallelism", AtMost: "spec.completions", Default: 1,
				Done: []Path{"status.succeeded", "status.failedIndexes"},
			}},
		},
		"JobSet": {
			Kind: schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}, Resource: "jobsets",
			Through: []Through{job}, Suspend: "spec.suspend", Ends: []string{"Completed", "Failed"}, RoleLabel: "jobset.sigs.k8s.io/replicatedjob-name",
			Roles: []Role{{
				Each: "spec.replicatedJobs", NameAt: "name", Times: "replicas",
				Replicas: "template.spec.parallelism", AtMost: "template.spec.completions", Default: 1,
				Templates: []Path{"template.spec.template"},
				// With exclusive placement, a webhook rejects all pods of a Job except the first
				// until the first pod has a node. If the nodes are labeled in advance, the webhook
				// admits all pods.
				Led:     Led{"metadata.annotations[" + exclusive + "]", "metadata.annotations[" + labeled + "]"},
				ItemLed: Led{"template.metadata.annotations[" + exclusive + "]", "template.metadata.annotations[" + labeled + "]"},
			}},
			InOrder:      []Condition{{"spec.startupPolicy.startupPolicyOrder", "InOrder"}},
			InOrderItems: "spec.replicatedJobs", InOrderField: "dependsOn",
		},
		"LeaderWorkerSet": leaderWorkerSet(),
		"MPIJob": {
			Kind: schema.GroupVersionKind{Group: "kubeflow.org", Version: "v2beta1", Kind: "MPIJob"}, Resource: "mpijobs",
			Through: []Through{job}, Suspend: "spec.runPolicy.suspend", Ends: []string{"Succeeded", "Failed"}, RoleLabel: "training.kubeflow.org/job-role",
			Roles: []Role{
				// With WaitForWorkersReady, the launcher is created after the workers are ready. A
				// gang that includes both would never start.
				{
					Name: "launcher", Replicas: "spec.mpiReplicaSpecs.Launcher.replicas", Default: 1,
					AloneWhen: []Condition{{"spec.launcherCreationPolicy", "WaitForWorkersReady"}},
					Templates: []Path{"spec.mpiReplicaSpecs.Launcher.template"},
				},
				{
					Name: "worker", Where: "spec.mpiReplicaSpecs.Worker.replicas", Replicas: "spec.mpiReplicaSpecs.Worker.replicas",
					Templates: []Path{"spec.mpiReplicaSpecs.Worker.template"},
				},
			},
		},
		"PyTorchJob": {
			Kind: schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"}, Resource: "pytorchjobs",
			Suspend: "spec.runPolicy.suspend", Ends: []string{"Succeeded", "Failed"}, RoleLabel: "training.kubeflow.org/replica-type",
			Roles: []Role{{Each: "spec.pytorchReplicaSpecs", Replicas: "replicas", Default: 1, Templates: []Path{"template"}}},
		},
		"RayCluster": {
			Kind: rayCluster.Kind, Resource: rayCluster.Resource, Suspend: "spec.suspend", RoleLabel: "ray.io/group",
			Roles: rayRoles("spec."), Aside: rayCleanup,
		},
		"RayJob": {
			Kind: schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayJob"}, Resource: "rayjobs",
			Through: []Through{rayCluster, job}, Suspend: "spec.suspend", RoleLabel: "ray.io/group",
			Roles: leading(rayRoles("spec.rayClusterSpec."), "headgroup"), Aside: rayCleanup,
			EndsWhen: []Condition{{"status.jobDeploymentStatus", "Complete"}, {"status.jobDeploymentStatus", "Failed"}},
		},
		"SparkApplication": {
			Kind:     schema.GroupVersionKind{Group: "sparkoperator.k8s.io", Version: "v1beta2", Kind: "SparkApplication"},
			Resource: "sparkapplications", NameLabel: "sparkoperator.k8s.io/app-name", MakesAll: true, Suspend: "spec.suspend",
			EndsWhen:  []Condition{{"status.applicationState.state", "COMPLETED"}, {"status.applicationState.state", "FAILED"}},
			RoleLabel: "spark-role",
			Roles: []Role{
				// The driver creates the executors.
				{Name: "driver", Alone: true, Leads: true},
				{
					Name: "executor", Replicas: "spec.executor.instances", Default: 1,
					Minimum: "spec.dynamicAllocation.minExecutors", Elastic: "spec.dynamicAllocation.enabled",
					// In Spark, the default of minExecutors is 0, because Spark removes idle
					// executors. But the work needs at least one executor.
					Least: 1,
				},
			},
		},
	}
}

func leaderWorkerSet() *Rule {
	const worker, restartPolicy = "spec.leaderWorkerTemplate.workerTemplate", "spec.leaderWorkerTemplate.restartPolicy"
	return &Rule{
		Kind:     schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"},
		Resource: "leaderworkersets", NameLabel: "leaderworkerset.sigs.k8s.io/name",
		UnitLabel: "leaderworkerset.sigs.k8s.io/group-index", Units: "spec.replicas",
		RoleLabel: "leaderworkerset.sigs.k8s.io/worker-index",
		// RecreateGroupOnPodRestart is the default of the LeaderWorkerSet API.
		WholeWhen: []Condition{{restartPolicy, "RecreateGroupOnPodRestart"}, {restartPolicy, "RecreateGroupAfterStart"}},
		Roles: []Role{
			// With LeaderReady, the workers are created after the leader is ready. With exclusive
			// placement, they are created after the leader has a node. In both cases, a gang of the
			// leader and all workers would never start.
			{
				Name: "0", Default: 1, Leads: true,
				AloneWhen: []Condition{
					{"spec.startupPolicy", "LeaderReady"},
					{Path: "metadata.annotations[leaderworkerset.sigs.k8s.io/exclusive-topology]"},
				},
				Templates: []Path{"spec.leaderWorkerTemplate.leaderTemplate", worker},
			},
			// During a rollout that changes the size, the controller may still recreate a replica
			// with the previous size. So the size in the annotation of the replica's pods counts.
			{
				Name: AnyName, Replicas: "spec.leaderWorkerTemplate.size", Default: 1, Plus: -1,
				Said: annotation("leaderworkerset.sigs.k8s.io/size"), Templates: []Path{worker},
			},
		},
	}
}

// rayRoles returns the roles of the RayCluster spec at a path. The pod that submits a RayJob lacks
// the label for the role.
func rayRoles(at Path) []Role {
	return []Role{
		{Name: NoName, Alone: true},
		{Name: "headgroup", Default: 1, Templates: []Path{at + "headGroupSpec.template"}},
		{
			Each: at + "workerGroupSpecs", NameAt: "groupName", Off: "suspend", Times: "numOfHosts", Replicas: "replicas", Default: 1,
			// The RayCluster controller keeps the replicas within these bounds, even without
			// autoscaling.
			AtLeast: "minReplicas", AtMost: "maxReplicas",
			Minimum: "minReplicas", Elastic: at + "enableInTreeAutoscaling", Templates: []Path{"template"},
		},
	}
}

// leading sets Leads for the named role, whose pod causes the creation of the workers. It is used
// for the head of a RayJob, which has work at once. The head of a RayCluster may wait for users for
// any time.
func leading(roles []Role, name string) []Role {
	for i := range roles {
		roles[i].Leads = roles[i].Name == name
	}
	return roles
}

// FromArgs returns the rules that a profile's arguments request: the built-in rules of the named
// kinds, and the rules in the arguments.
func FromArgs(args *configv1alpha1.GroupArgs) ([]*Rule, error) {
	var out []*Rule
	// Rules for labels on pods precede rules for owners of pods.
	for _, scheduler := range args.Labels {
		out = append(out, foreign(scheduler).rules...)
	}
	known := BuiltIn()
	for _, kind := range args.Kinds {
		rule, ok := known[kind]
		if !ok {
			return nil, fmt.Errorf("groups.kinds: %s has no rule; write one under groups.rules", kind)
		}
		out = append(out, rule)
	}
	for i := range args.Rules {
		rule, err := fromArgs(&args.Rules[i])
		if err != nil {
			return nil, fmt.Errorf("groups.rules[%d]: %w", i, err)
		}
		at := slices.IndexFunc(out, func(r *Rule) bool { return r.Kind.GroupKind() == rule.Kind.GroupKind() })
		if at >= 0 {
			return nil, fmt.Errorf("groups.rules[%d]: %s has a rule already; leave one of the two", i, rule.Kind.GroupKind())
		}
		out = append(out, rule)
	}
	return out, nil
}

func fromArgs(args *configv1alpha1.GroupRule) (*Rule, error) {
	gv, err := schema.ParseGroupVersion(args.APIVersion)
	if err != nil {
		return nil, err
	}
	rule := &Rule{
		Kind: gv.WithKind(args.Kind), Resource: args.Resource, Suspend: Path(args.Suspend), NameLabel: args.NameLabel,
		UnitLabel: args.UnitLabel, Units: Path(args.Units), RoleLabel: args.RoleLabel,
	}
	for _, role := range args.Roles {
		rule.Roles = append(rule.Roles, Role{
			Name: role.Name, Replicas: Path(role.Replicas), Minimum: Path(role.Minimum), Alone: role.Alone, Leads: role.Leads,
		})
	}
	return rule, nil
}
