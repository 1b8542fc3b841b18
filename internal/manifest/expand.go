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
	"k8s.io/utils/ptr"
)

// mostPods bounds how many pods one object makes here.
const mostPods = 10000

// podsOf are the pods that a document is or that controllers would make of it, before anything is filled in. Made is false for
// what makes no pods. Replicas, if not nil, is how many there are to be in place of what the document says.
func podsOf(d *Document, replicas *int32) (pods []*corev1.Pod, made bool, err error) {
	name := d.Meta.GetName()
	switch object := d.Object.(type) {
	case *corev1.Pod:
		return []*corev1.Pod{object.DeepCopy()}, true, nil
	case *batchv1.Job:
		pods, err = ofJob(d, name, &object.Spec, replicas)
	case *appsv1.Deployment:
		pods, err = stamp(d, name, "ReplicaSet", &object.Spec.Template, ptr.Deref(replicas, ptr.Deref(object.Spec.Replicas, 1)))
	case *appsv1.ReplicaSet:
		pods, err = stamp(d, name, "ReplicaSet", &object.Spec.Template, ptr.Deref(replicas, ptr.Deref(object.Spec.Replicas, 1)))
	case *appsv1.StatefulSet:
		pods, err = stamp(d, name, "StatefulSet", &object.Spec.Template, ptr.Deref(replicas, ptr.Deref(object.Spec.Replicas, 1)))
	case *unstructured.Unstructured:
		if object.GetKind() != "JobSet" {
			return nil, false, nil
		}
		pods, err = ofJobSet(d, object, replicas)
	default:
		return nil, false, nil
	}
	return pods, true, err
}

// ofJob are the pods that a Job has at a time: parallelism, or fewer where it takes fewer completions.
func ofJob(d *Document, name string, spec *batchv1.JobSpec, replicas *int32) ([]*corev1.Pod, error) {
	if ptr.Deref(spec.Suspend, false) {
		return nil, nil
	}
	count := ptr.Deref(replicas, ptr.Deref(spec.Parallelism, 1))
	if spec.Completions != nil && replicas == nil {
		count = min(count, *spec.Completions)
	}
	pods, err := stamp(d, name, "Job", &spec.Template, count)
	for i, pod := range pods {
		setLabel(pod, "job-name", name)
		setLabel(pod, batchv1.JobNameLabel, name)
		if ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion {
			setLabel(pod, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(i))
		}
	}
	return pods, err
}

// ofJobSet are the pods of all Jobs of a JobSet (jobset.x-k8s.io).
func ofJobSet(d *Document, object *unstructured.Unstructured, replicas *int32) ([]*corev1.Pod, error) {
	var set struct {
		Spec struct {
			Suspend        bool `json:"suspend"`
			ReplicatedJobs []struct {
				Name     string                  `json:"name"`
				Replicas *int32                  `json:"replicas"`
				Template batchv1.JobTemplateSpec `json:"template"`
			} `json:"replicatedJobs"`
		} `json:"spec"`
	}
	raw, err := object.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, &set)
	}
	if err != nil {
		return nil, d.fault("%v", err)
	}
	if len(set.Spec.ReplicatedJobs) == 0 {
		return nil, d.fault("spec.replicatedJobs is empty")
	}
	if set.Spec.Suspend {
		return nil, nil
	}
	var out []*corev1.Pod
	for _, replicated := range set.Spec.ReplicatedJobs {
		for i := range ptr.Deref(replicas, ptr.Deref(replicated.Replicas, 1)) {
			job := fmt.Sprintf("%s-%s-%d", object.GetName(), replicated.Name, i)
			pods, err := ofJob(d, job, &replicated.Template.Spec, nil)
			if err != nil {
				return nil, err
			}
			for _, pod := range pods {
				setLabel(pod, "jobset.sigs.k8s.io/jobset-name", object.GetName())
				setLabel(pod, "jobset.sigs.k8s.io/replicatedjob-name", replicated.Name)
				setLabel(pod, "jobset.sigs.k8s.io/job-index", strconv.Itoa(int(i)))
			}
			out = append(out, pods...)
		}
	}
	return out, nil
}

// stamp makes pods of a template.
func stamp(d *Document, name, owner string, template *corev1.PodTemplateSpec, count int32) ([]*corev1.Pod, error) {
	if count < 0 || count > mostPods {
		return nil, d.fault("it makes %d pods; between 0 and %d are planned", count, mostPods)
	}
	out := make([]*corev1.Pod, count)
	for i := range out {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", name, i), d.Meta.GetNamespace()
		pod.GenerateName = ""
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: ownerVersion(owner), Kind: owner, Name: name, UID: uidOf(owner, pod.Namespace, name), Controller: ptr.To(true)}}
		out[i] = pod
	}
	return out, nil
}

func ownerVersion(kind string) string {
	if kind == "Job" {
		return batchv1.SchemeGroupVersion.String()
	}
	return appsv1.SchemeGroupVersion.String()
}

func setLabel(pod *corev1.Pod, name, value string) {
	if pod.Labels == nil {
		pod.Labels = make(map[string]string)
	}
	pod.Labels[name] = value
}
