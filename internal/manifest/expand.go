package manifest

import (
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// mostPods is the maximum number of pods that one template may create, and of Jobs that one object
// may create.
const mostPods = 10000

// setReplicas sets the number of replicas in a document. If replicas is nil, the document stays
// unchanged.
func setReplicas(d *Document, replicas *int32) error {
	if replicas == nil {
		return nil
	}
	switch object := d.Object.(type) {
	case *batchv1.Job:
		object.Spec.Parallelism = replicas
		if object.Spec.Completions != nil {
			object.Spec.Completions = ptr.To(max(*object.Spec.Completions, *replicas))
		}
	case *appsv1.Deployment:
		object.Spec.Replicas = replicas
	case *appsv1.ReplicaSet:
		object.Spec.Replicas = replicas
	case *appsv1.StatefulSet:
		object.Spec.Replicas = replicas
	case *corev1.ReplicationController:
		object.Spec.Replicas = replicas
	case *unstructured.Unstructured:
		switch object.GetKind() {
		case "JobSet":
			return setJobSetReplicas(d, object, int64(*replicas))
		case "LeaderWorkerSet":
			if err := unstructured.SetNestedField(object.Object, int64(*replicas), "spec", "replicas"); err != nil {
				return d.fault("%v", err)
			}
		default:
			return setWorkers(d, object, int64(*replicas))
		}
	}
	return nil
}

// setJobSetReplicas sets the number of Jobs that each role of a JobSet has.
func setJobSetReplicas(d *Document, set *unstructured.Unstructured, replicas int64) error {
	jobs, _, err := unstructured.NestedSlice(set.Object, "spec", "replicatedJobs")
	for _, job := range jobs {
		if fields, ok := job.(map[string]any); ok {
			fields["replicas"] = replicas
		}
	}
	if err == nil && len(jobs) > 0 {
		err = unstructured.SetNestedSlice(set.Object, jobs, "spec", "replicatedJobs")
	}
	if err != nil {
		return d.fault("%v", err)
	}
	return nil
}

// podsOf returns the pods of a document without defaults: the Pod itself, or the pods that
// controllers would create for the object. owner is the UID of the document's object. made is false
// for a kind that creates no pods, or that this package does not support.
func podsOf(d *Document, owner types.UID) (pods []*corev1.Pod, made bool, err error) {
	name := d.Meta.GetName()
	by := func(kind string) metav1.OwnerReference {
		return ownedBy(kind, name, uidOf(kind, d.Meta.GetNamespace(), name))
	}
	switch object := d.Object.(type) {
	case *corev1.Pod:
		return []*corev1.Pod{object.DeepCopy()}, true, nil
	case *batchv1.Job:
		pods, err = ofJob(d, ownedBy("Job", name, owner), &object.Spec)
	case *appsv1.Deployment:
		pods, err = stamp(d, name, by("ReplicaSet"), &object.Spec.Template, int64(ptr.Deref(object.Spec.Replicas, 1)))
	case *appsv1.ReplicaSet:
		pods, err = stamp(d, name, by("ReplicaSet"), &object.Spec.Template, int64(ptr.Deref(object.Spec.Replicas, 1)))
	case *appsv1.StatefulSet:
		pods, err = stamp(d, name, by("StatefulSet"), &object.Spec.Template, int64(ptr.Deref(object.Spec.Replicas, 1)))
	case *corev1.ReplicationController:
		if object.Spec.Template == nil {
			return nil, true, d.fault("spec.template is missing")
		}
		pods, err = stamp(d, name, by("ReplicationController"), object.Spec.Template, int64(ptr.Deref(object.Spec.Replicas, 1)))
	case *unstructured.Unstructured:
		switch object.GetKind() {
		case "JobSet":
			pods, err = ofJobSet(d, object)
		case "LeaderWorkerSet":
			pods, err = ofLeaderWorkerSet(d, object)
		default:
			return ofFramework(d, object, owner)
		}
	default:
		return nil, false, nil
	}
	return pods, true, err
}

// podsAtATime returns the maximum number of pods that a Job runs at the same time: its parallelism,
// or its completions if these are fewer. It is 0 for a suspended Job.
func podsAtATime(spec *batchv1.JobSpec) int64 {
	if ptr.Deref(spec.Suspend, false) {
		return 0
	}
	count := ptr.Deref(spec.Parallelism, 1)
	if spec.Completions != nil {
		count = min(count, *spec.Completions)
	}
	return int64(count)
}

// ofJob returns the pods that a Job runs at the same time.
func ofJob(d *Document, owner metav1.OwnerReference, spec *batchv1.JobSpec) ([]*corev1.Pod, error) {
	pods, err := stamp(d, owner.Name, owner, &spec.Template, podsAtATime(spec))
	for i, pod := range pods {
		setLabel(pod, "job-name", owner.Name)
		setLabel(pod, batchv1.JobNameLabel, owner.Name)
		if ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion {
			setLabel(pod, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(i))
		}
	}
	return pods, err
}

// jobSet has the fields of a JobSet (jobset.x-k8s.io) that this package reads.
type jobSet struct {
	Spec struct {
		Suspend        bool `json:"suspend"`
		ReplicatedJobs []struct {
			Name     string                  `json:"name"`
			Replicas *int32                  `json:"replicas"`
			Template batchv1.JobTemplateSpec `json:"template"`
		} `json:"replicatedJobs"`
	} `json:"spec"`
}

// readJobSet decodes a JobSet. It returns nil for a suspended JobSet. It returns an error if a role
// has too many Jobs or pods.
func readJobSet(d *Document, object *unstructured.Unstructured) (*jobSet, error) {
	set := &jobSet{}
	if err := into(d, object, set); err != nil {
		return nil, err
	}
	if len(set.Spec.ReplicatedJobs) == 0 {
		return nil, d.fault("spec.replicatedJobs is empty")
	}
	if set.Spec.Suspend {
		return nil, nil //nolint:nilnil // It makes nothing, which is no error.
	}
	for i := range set.Spec.ReplicatedJobs {
		role := &set.Spec.ReplicatedJobs[i]
		jobs := int64(ptr.Deref(role.Replicas, 1))
		if err := checkCount(d, jobs, "Jobs"); err != nil {
			return nil, err
		}
		if err := checkCount(d, jobs*podsAtATime(&role.Template.Spec), "pods"); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// jobs calls visit for each Job of a JobSet. The arguments are the Job's name, its role, its index
// within the role, and its spec.
func (set *jobSet) jobs(name string, visit func(job, role string, index int32, spec *batchv1.JobSpec) error) error {
	for i := range set.Spec.ReplicatedJobs {
		replicated := &set.Spec.ReplicatedJobs[i]
		for index := range ptr.Deref(replicated.Replicas, 1) {
			job := fmt.Sprintf("%s-%s-%d", name, replicated.Name, index)
			if err := visit(job, replicated.Name, index, &replicated.Template.Spec); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofJobSet returns the pods of all Jobs of a JobSet.
func ofJobSet(d *Document, object *unstructured.Unstructured) ([]*corev1.Pod, error) {
	set, err := readJobSet(d, object)
	if set == nil || err != nil {
		return nil, err
	}
	var out []*corev1.Pod
	err = set.jobs(object.GetName(), func(job, role string, index int32, spec *batchv1.JobSpec) error {
		pods, err := ofJob(d, ownedBy("Job", job, uidOf("Job", object.GetNamespace(), job)), spec)
		for _, pod := range pods {
			setLabel(pod, "jobset.sigs.k8s.io/jobset-name", object.GetName())
			setLabel(pod, "jobset.sigs.k8s.io/replicatedjob-name", role)
			setLabel(pod, "jobset.sigs.k8s.io/job-index", strconv.Itoa(int(index)))
		}
		out = append(out, pods...)
		return err
	})
	return out, err
}

// ofLeaderWorkerSet returns the leaders and workers of all replicas of a LeaderWorkerSet
// (leaderworkerset.x-k8s.io).
func ofLeaderWorkerSet(d *Document, object *unstructured.Unstructured) ([]*corev1.Pod, error) {
	var set struct {
		Spec struct {
			Replicas *int32 `json:"replicas"`
			Template struct {
				Size   *int32                  `json:"size"`
				Leader *corev1.PodTemplateSpec `json:"leaderTemplate"`
				Worker corev1.PodTemplateSpec  `json:"workerTemplate"`
			} `json:"leaderWorkerTemplate"`
		} `json:"spec"`
	}
	if err := into(d, object, &set); err != nil {
		return nil, err
	}
	replicas, size := int64(ptr.Deref(set.Spec.Replicas, 1)), int64(ptr.Deref(set.Spec.Template.Size, 1))
	namespace, leader := object.GetNamespace(), set.Spec.Template.Leader
	if leader == nil {
		leader = &set.Spec.Template.Worker
	}
	leaders, err := stamp(d, object.GetName(), ownedBy("StatefulSet", object.GetName(), uidOf("StatefulSet", namespace, object.GetName())), leader, replicas)
	if err != nil {
		return nil, err
	}
	if err := checkCount(d, replicas*(size-1), "pods"); err != nil {
		return nil, err
	}
	var out []*corev1.Pod
	for group, pod := range leaders {
		workers, err := stamp(d, pod.Name, ownedBy("StatefulSet", pod.Name, uidOf("StatefulSet", namespace, pod.Name)), &set.Spec.Template.Worker, size-1)
		if err != nil {
			return nil, err
		}
		for i, member := range append([]*corev1.Pod{pod}, workers...) {
			if i > 0 {
				// Index 0 is the leader, so the names of the workers start at 1.
				member.Name = fmt.Sprintf("%s-%d", pod.Name, i)
			}
			setLabel(member, "leaderworkerset.sigs.k8s.io/name", object.GetName())
			setLabel(member, "leaderworkerset.sigs.k8s.io/group-index", strconv.Itoa(group))
			setLabel(member, "leaderworkerset.sigs.k8s.io/worker-index", strconv.Itoa(i))
			out = append(out, member)
		}
	}
	return out, nil
}

func into(d *Document, object *unstructured.Unstructured, value any) error {
	raw, err := object.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, value)
	}
	if err != nil {
		return d.fault("%v", err)
	}
	return nil
}

// checkCount returns an error if count is negative or above mostPods. noun is the counted thing for
// the message, such as "pods".
func checkCount(d *Document, count int64, noun string) error {
	if count < 0 || count > mostPods {
		return d.fault("it makes %d %s; between 0 and %d are planned", count, noun, mostPods)
	}
	return nil
}

// stamp creates count pods from a template. It returns an error if count is negative or above
// mostPods.
func stamp(d *Document, name string, owner metav1.OwnerReference, template *corev1.PodTemplateSpec, count int64) ([]*corev1.Pod, error) {
	if err := checkCount(d, count, "pods"); err != nil {
		return nil, err
	}
	out := make([]*corev1.Pod, count)
	for i := range out {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", name, i), d.Meta.GetNamespace()
		pod.GenerateName = ""
		pod.OwnerReferences = []metav1.OwnerReference{owner}
		out[i] = pod
	}
	return out, nil
}

// ownedBy returns an owner reference to the controller of pods with the kind, name and UID.
func ownedBy(kind, name string, uid types.UID) metav1.OwnerReference {
	version := appsv1.SchemeGroupVersion.String()
	switch kind {
	case "Job":
		version = batchv1.SchemeGroupVersion.String()
	case "ReplicationController":
		version = corev1.SchemeGroupVersion.String()
	}
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}
}

func setLabel(pod *corev1.Pod, name, value string) {
	if pod.Labels == nil {
		pod.Labels = make(map[string]string)
	}
	pod.Labels[name] = value
}
