package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// This file creates the pods of Kubeflow and Ray objects, with the owners and labels that the
// operators set.

const (
	kubeflowGroup, rayGroup = "kubeflow.org", "ray.io"

	labelReplicaType, labelJobRole = "training.kubeflow.org/replica-type", "training.kubeflow.org/job-role"
	labelRayGroup, labelRayCluster = "ray.io/group", "ray.io/cluster"
)

// untold returns the reason why this package cannot know the pods of a kind. The reason is empty if
// it can.
func untold(d *Document) string {
	switch gvk := d.Object.GetObjectKind().GroupVersionKind(); {
	case gvk.Group == "sparkoperator.k8s.io":
		return "the Spark operator writes the driver's pod, and the driver its executors'; plan Pods that ask for as much in its place"
	case gvk.Group == "trainer.kubeflow.org" && gvk.Kind == "TrainJob":
		return "its pods come from a runtime of the cluster; plan the JobSet that is made of the two"
	case gvk.Group == "batch" && gvk.Kind == "CronJob":
		return "it makes a Job now and then; plan that Job"
	case gvk.Group == "apps" && gvk.Kind == "DaemonSet":
		return "it makes a pod for each node that it is for; plan one of them as a Pod"
	default:
		return ""
	}
}

// setDefaults sets the defaults of Ray's worker groups that the API server would set and that
// grouping reads.
func setDefaults(d *Document) error {
	object, ok := d.Object.(*unstructured.Unstructured)
	if !ok || object.GroupVersionKind().Group != rayGroup {
		return nil
	}
	return eachWorkerGroup(d, object, func(group map[string]any) {
		for field, value := range map[string]int64{"replicas": 0, "minReplicas": 0, "numOfHosts": 1} {
			if _, ok := group[field]; !ok {
				group[field] = value
			}
		}
	})
}

// eachWorkerGroup calls change for each worker group of a RayCluster, or of the RayCluster in a
// RayJob, and stores the changed groups.
func eachWorkerGroup(d *Document, object *unstructured.Unstructured, change func(group map[string]any)) error {
	path := append(clusterPath(object), "workerGroupSpecs")
	groups, found, err := unstructured.NestedSlice(object.Object, path...)
	if err != nil {
		return d.fault("%v", err)
	}
	if !found {
		return nil
	}
	for _, group := range groups {
		if fields, ok := group.(map[string]any); ok {
			change(fields)
		}
	}
	if err := unstructured.SetNestedSlice(object.Object, groups, path...); err != nil {
		return d.fault("%v", err)
	}
	return nil
}

// clusterPath returns the path of the RayCluster spec in a RayCluster or RayJob.
func clusterPath(object *unstructured.Unstructured) []string {
	if object.GetKind() == "RayJob" {
		return []string{"spec", "rayClusterSpec"}
	}
	return []string{"spec"}
}

// setWorkers sets the number of workers in each worker role of an object. For Ray, it also extends
// the minimum and maximum of the worker group to include that number.
func setWorkers(d *Document, object *unstructured.Unstructured, replicas int64) error {
	switch object.GroupVersionKind().Group {
	case rayGroup:
		return eachWorkerGroup(d, object, func(group map[string]any) {
			group["replicas"] = replicas
			if least, ok := number(group["minReplicas"]); ok {
				group["minReplicas"] = min(least, replicas)
			}
			if most, ok := number(group["maxReplicas"]); ok {
				group["maxReplicas"] = max(most, replicas)
			}
		})
	case kubeflowGroup:
		roles, _, err := unstructured.NestedMap(object.Object, "spec", replicaField(object))
		if err != nil {
			return d.fault("%v", err)
		}
		for name, role := range roles {
			if fields, ok := role.(map[string]any); ok && strings.EqualFold(name, "worker") {
				fields["replicas"] = replicas
			}
		}
		if len(roles) > 0 {
			err = unstructured.SetNestedMap(object.Object, roles, "spec", replicaField(object))
		}
		if err != nil {
			return d.fault("%v", err)
		}
	}
	return nil
}

// number returns a number from YAML or JSON as an integer. It returns false if v is not a number.
func number(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	default:
		return 0, false
	}
}

// replicaField returns the field of spec with the roles of an MPIJob or PyTorchJob.
func replicaField(object *unstructured.Unstructured) string {
	if object.GetKind() == "MPIJob" {
		return "mpiReplicaSpecs"
	}
	return "pytorchReplicaSpecs"
}

// ofFramework returns the pods of an object of a framework. made is false if this package does not
// support the kind.
func ofFramework(d *Document, object *unstructured.Unstructured, owner types.UID) (pods []*corev1.Pod, made bool, err error) {
	gvk := object.GroupVersionKind()
	by := metav1.OwnerReference{APIVersion: object.GetAPIVersion(), Kind: gvk.Kind, Name: object.GetName(), UID: owner, Controller: ptr.To(true)}
	switch {
	case gvk.Group == kubeflowGroup && gvk.Kind == "PyTorchJob":
		pods, err = ofTraining(d, object, by, labelReplicaType)
	case gvk.Group == kubeflowGroup && gvk.Kind == "MPIJob":
		pods, err = ofTraining(d, object, by, labelJobRole)
	case gvk.Group == rayGroup && gvk.Kind == "RayCluster":
		pods, err = ofRay(d, object, by)
	case gvk.Group == rayGroup && gvk.Kind == "RayJob":
		pods, err = ofRay(d, object, rayClusterOf(object))
	default:
		return nil, false, nil
	}
	return pods, true, err
}

// ofTraining returns the pods of all roles of an MPIJob or PyTorchJob, sorted by the names of the
// roles.
func ofTraining(d *Document, object *unstructured.Unstructured, owner metav1.OwnerReference, roleLabel string) ([]*corev1.Pod, error) {
	if suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "runPolicy", "suspend"); suspended {
		return nil, nil
	}
	field := replicaField(object)
	var job struct {
		Spec map[string]any `json:"spec"`
	}
	if err := into(d, object, &job); err != nil {
		return nil, err
	}
	roles, ok := job.Spec[field].(map[string]any)
	if !ok || len(roles) == 0 {
		return nil, d.fault("spec.%s is empty", field)
	}
	var out []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		fields, ok := roles[name].(map[string]any)
		if !ok {
			return nil, d.fault("spec.%s.%s is no object", field, name)
		}
		var role struct {
			Replicas *int32                 `json:"replicas"`
			Template corev1.PodTemplateSpec `json:"template"`
		}
		if err := into(d, &unstructured.Unstructured{Object: fields}, &role); err != nil {
			return nil, err
		}
		part, by := strings.ToLower(name), owner
		if object.GetKind() == "MPIJob" && part == "launcher" {
			by = launcherOf(object)
		}
		pods, err := stamp(d, object.GetName()+"-"+part, by, &role.Template, int64(ptr.Deref(role.Replicas, 1)))
		if err != nil {
			return nil, err
		}
		for i, pod := range pods {
			setLabel(pod, roleLabel, part)
			setLabel(pod, "training.kubeflow.org/job-name", object.GetName())
			setLabel(pod, "training.kubeflow.org/replica-index", strconv.Itoa(i))
		}
		out = append(out, pods...)
	}
	return out, nil
}

// launcherOf returns an owner reference to the Job that creates the launcher of an MPIJob.
func launcherOf(object *unstructured.Unstructured) metav1.OwnerReference {
	name := object.GetName() + "-launcher"
	return ownedBy("Job", name, uidOf("Job", object.GetNamespace(), name))
}

// rayClusterOf returns an owner reference to the RayCluster that a RayJob creates.
func rayClusterOf(object *unstructured.Unstructured) metav1.OwnerReference {
	name := object.GetName() + "-cluster"
	return metav1.OwnerReference{
		APIVersion: object.GetAPIVersion(), Kind: "RayCluster", Name: name, UID: uidOf("RayCluster", object.GetNamespace(), name), Controller: ptr.To(true),
	}
}

// rayCluster has the fields of a RayCluster spec that this package reads.
type rayCluster struct {
	Suspend bool `json:"suspend"`
	Head    struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"headGroupSpec"`
	Workers []struct {
		Name     string                 `json:"groupName"`
		Suspend  bool                   `json:"suspend"`
		Replicas int32                  `json:"replicas"`
		Least    int32                  `json:"minReplicas"`
		Most     *int32                 `json:"maxReplicas"`
		Hosts    int32                  `json:"numOfHosts"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"workerGroupSpecs"`
}

// ofRay returns the head and the workers of a RayCluster. It omits the pod that submits a RayJob,
// because the operator creates that pod after the cluster runs.
func ofRay(d *Document, object *unstructured.Unstructured, cluster metav1.OwnerReference) ([]*corev1.Pod, error) {
	fields, found, err := unstructured.NestedMap(object.Object, clusterPath(object)...)
	if err != nil {
		return nil, d.fault("%v", err)
	}
	if !found {
		return nil, d.fault("%s is missing", strings.Join(clusterPath(object), "."))
	}
	spec := &rayCluster{}
	if err := into(d, &unstructured.Unstructured{Object: fields}, spec); err != nil {
		return nil, err
	}
	if suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend"); suspended || spec.Suspend {
		return nil, nil
	}
	out, err := stamp(d, cluster.Name+"-head", cluster, &spec.Head.Template, 1)
	for _, pod := range out {
		setLabel(pod, labelRayGroup, "headgroup")
	}
	for i := range spec.Workers {
		w := &spec.Workers[i]
		if err != nil {
			return nil, err
		}
		if w.Suspend {
			continue
		}
		var pods []*corev1.Pod
		// The operator keeps the number of replicas between minReplicas and maxReplicas.
		count := min(max(w.Replicas, w.Least), ptr.Deref(w.Most, mostPods+1))
		if count < 0 || w.Hosts < 0 {
			return nil, d.fault("worker group %q has %d replicas of %d hosts; neither may be negative", w.Name, count, w.Hosts)
		}
		pods, err = stamp(d, fmt.Sprintf("%s-%s-worker", cluster.Name, w.Name), cluster, &w.Template, int64(count)*int64(w.Hosts))
		for _, pod := range pods {
			setLabel(pod, labelRayGroup, w.Name)
		}
		out = append(out, pods...)
	}
	for _, pod := range out {
		setLabel(pod, labelRayCluster, cluster.Name)
	}
	return out, err
}

// made returns the objects that an operator creates between an object and its pods, such as the
// RayCluster of a RayJob. They have their owner references.
func (s *submitting) made(d *Document, object *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	owner := s.ownerOf(object)
	var out []*unstructured.Unstructured
	put := func(ref metav1.OwnerReference) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(ref.APIVersion)
		u.SetKind(ref.Kind)
		u.SetNamespace(object.GetNamespace())
		u.SetName(ref.Name)
		u.SetUID(ref.UID)
		u.SetOwnerReferences([]metav1.OwnerReference{owner})
		out = append(out, u)
		return u
	}
	switch object.GetKind() {
	case "JobSet":
		set, err := readJobSet(d, object)
		if set == nil || err != nil {
			return nil, err
		}
		err = set.jobs(object.GetName(), func(job, _ string, _ int32, _ *batchv1.JobSpec) error {
			put(ownedBy("Job", job, uidOf("Job", object.GetNamespace(), job)))
			return nil
		})
		return out, err
	case "MPIJob":
		put(launcherOf(object))
	case "RayJob":
		spec, _, err := unstructured.NestedMap(object.Object, clusterPath(object)...)
		if err != nil {
			return nil, d.fault("%v", err)
		}
		put(rayClusterOf(object)).Object["spec"] = spec
	}
	return out, nil
}

// ownerOf returns an owner reference to a submitted object. If the inventory already has the
// object, the reference has its UID.
func (s *submitting) ownerOf(object *unstructured.Unstructured) metav1.OwnerReference {
	owner := metav1.OwnerReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), Controller: ptr.To(true),
		UID: uidOf(object.GetKind(), object.GetNamespace(), object.GetName()),
	}
	if kind, ok := s.roots.of(object.GetAPIVersion(), object.GetKind()); ok {
		if found, ok := s.find(kind, object); ok {
			owner.UID = found.UID
		}
	}
	return owner
}
