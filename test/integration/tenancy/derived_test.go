package tenancy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// derivedAttempt is a case: a user creates work without a PodGroup. The queue and the class of such
// work depend on more than the labels of Reprieve on its pods, for example on annotations of the
// Job.
type derivedAttempt struct {
	namespace string
	// of is the Job that creates the pod. If it is nil, the test creates the pod itself.
	of *batchv1.Job
	// change changes the pod. By default, the pod has the class "high".
	change func(*corev1.Pod)
	// want is the reason why the pod must wait, or "" if it must start. The API server must accept
	// the pod in each case.
	want string
}

func derivedAttempts() map[string]derivedAttempt {
	const above = v1alpha1.ReasonPriorityAboveQueue
	gang := func(annotations map[string]string) *batchv1.Job {
		annotations[v1alpha1.AnnotationGang] = "true"
		return job(annotations)
	}
	annotated := func(pairs ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				p.Annotations[pairs[i]] = pairs[i+1]
			}
		}
	}
	labelled := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels[key] = value }
	}
	return map[string]derivedAttempt{
		"job-in-another-queue":        {"rd", gang(map[string]string{v1alpha1.AnnotationQueue: "open"}), nil, ""},
		"job-that-goes-lower":         {"rd", gang(map[string]string{v1alpha1.AnnotationPriorityClass: "mid"}), nil, ""},
		"job-by-label-that-goes-down": {"r", gang(map[string]string{v1alpha1.AnnotationPriorityClass: "mid"}), labelled(v1alpha1.LabelQueue, "red"), ""},
		"job-above":                   {"rd", gang(map[string]string{}), nil, above},
		"job-by-label-above":          {"r", gang(map[string]string{}), labelled(v1alpha1.LabelQueue, "red"), above},
		"job-of-single-pods-above":    {"rd", job(map[string]string{}), nil, above},
		"pod-in-a-queue-of-kai":       {"rd", nil, labelled("kai.scheduler/queue", "open"), ""},
		"pod-above-a-queue-of-kai":    {"rd", nil, labelled("kai.scheduler/queue", "red"), above},
		"pod-in-a-queue-of-volcano":   {"rd", nil, annotated("scheduling.volcano.sh/queue-name", "open"), ""},
		"pod-of-a-gang-that-is-lower": {"rm", nil, annotated("gang.scheduling.koordinator.sh/name", "g", "gang.scheduling.koordinator.sh/min-available", "1"), ""},
	}
}

// derivedGroups runs the cases about work whose PodGroup is derived, or whose queue is named in
// another way than by a label of Reprieve. Such work must obey the rules of its own queue and
// class, and no other rules.
func derivedGroups(t *testing.T, w *world, phase string) {
	for name, a := range derivedAttempts() {
		t.Run(name, func(t *testing.T) { w.in(t).derived(phase+"-"+name, a) })
	}
	t.Run("annotations that ask for too much", func(t *testing.T) { annotations(w.in(t), phase) })
}

// derived creates the work of a case and checks the result.
func (w *world) derived(name string, a derivedAttempt) {
	p := pod(a.namespace, name, "", "high", 0)
	if a.change != nil {
		a.change(p)
	}
	if a.of == nil {
		w.add(p)
		if a.want == "" {
			w.placed(a.namespace, name)
		} else {
			w.held(a.namespace, name, a.want)
		}
		return
	}
	j := a.of.DeepCopy()
	j.Namespace, j.Name = a.namespace, name
	j.Spec.Template.ObjectMeta = metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}
	j.Spec.Template.Spec.PriorityClassName = p.Spec.PriorityClassName
	w.add(j)
	made := w.podOf(j)
	switch {
	case a.want == "":
		w.placed(a.namespace, made)
	case j.Annotations[v1alpha1.AnnotationGang] == "":
		w.held(a.namespace, made, a.want)
	default:
		w.derivedGroup(a.namespace, name, func(pg *v1alpha1.PodGroup) string { return says(pg, a.want) })
	}
}

// podOf waits until the Job controller has created a pod, and returns its name. If the API server
// rejects the pod, only the Job controller gets the error.
func (w *world) podOf(j *batchv1.Job) (name string) {
	w.Helper()
	w.Eventually("Job "+j.Name+" has a pod", func(ctx context.Context) string {
		list, err := w.Kube.CoreV1().Pods(j.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + j.Name})
		if err != nil {
			return err.Error()
		}
		if len(list.Items) == 0 {
			if w.toldOf(ctx, j.Namespace, j.Name, "FailedCreate") == "" {
				return "it has none: its pods are refused"
			}
			return "it has none"
		}
		name = list.Items[0].Name
		return ""
	})
	return name
}

// derivedGroup waits until the PodGroup of a Job is as expected. The function right returns "" for
// such a PodGroup, and otherwise a description of the difference.
func (w *world) derivedGroup(namespace, job string, right func(*v1alpha1.PodGroup) string) {
	w.Helper()
	w.Eventually("the PodGroup of "+job, func(ctx context.Context) string {
		var all v1alpha1.PodGroupList
		if err := w.Objects.List(ctx, &all, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
		at := slices.IndexFunc(all.Items, func(pg v1alpha1.PodGroup) bool { return strings.HasPrefix(pg.Name, job+"-") })
		if at < 0 {
			return "there is none"
		}
		return right(&all.Items[at])
	})
}

// says returns "" if a PodGroup has a condition with the reason. Otherwise it returns a
// description.
func says(pg *v1alpha1.PodGroup, reason string) string {
	for _, c := range pg.Status.Conditions {
		if c.Reason == reason {
			return ""
		}
	}
	return fmt.Sprintf("it says %+v", pg.Status.Conditions)
}

// annotations tests annotations of a Job that name a queue of another team, or a class above the
// class of its pods. The PodGroup must report the queue as not allowed. The class must be ignored,
// and an event must report the ignored class.
func annotations(w *world, phase string) {
	ask := func(name string, annotations map[string]string) {
		annotations[v1alpha1.AnnotationGang] = "true"
		j := job(annotations)
		j.Namespace, j.Name = "r", name
		w.add(j)
	}
	elsewhere, climbs := phase+"-elsewhere", phase+"-climbs"
	ask(elsewhere, map[string]string{v1alpha1.AnnotationQueue: "blue"})
	w.derivedGroup("r", elsewhere, func(pg *v1alpha1.PodGroup) string { return says(pg, v1alpha1.ReasonQueueNotAllowed) })
	ask(climbs, map[string]string{v1alpha1.AnnotationPriorityClass: "high"})
	w.derivedGroup("r", climbs, func(pg *v1alpha1.PodGroup) string {
		if pg.Spec.Priority == nil || *pg.Spec.Priority != 0 {
			return fmt.Sprintf("its spec is %+v", pg.Spec)
		}
		return w.toldOf(w.Context(), "r", pg.Name, "ObjectNotFollowed")
	})
}

// notHeld tests pods that name a node or another scheduler. Reprieve cannot gate these pods. So the
// admission policy must check their queue, even if an owner reference says that they belong to a
// Job.
func notHeld(w *world) {
	onNode := func(p *corev1.Pod) { p.Spec.NodeName = "somewhere" }
	byLabel := func(p *corev1.Pod) { p.Labels[v1alpha1.LabelQueue] = "red" }
	for what, changes := range map[string][]func(*corev1.Pod){
		"a node, in the default of its namespace": {onNode},
		"a node, in a queue by its label":         {onNode, byLabel},
		"another scheduler":                       {func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }, byLabel},
	} {
		p := pod("rd", "claims-an-owner", "", "high", 0, append(changes, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "none", UID: types.UID("none"), Controller: ptr.To(true)}}
		})...)
		if err := w.as.Create(w.Context(), p, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "is above") {
			w.Errorf("a pod that names %s: got %v, want it refused", what, err)
		}
	}
}

// job returns a Job with one pod and with annotations.
func job(annotations map[string]string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			SchedulerName: stage.Profile, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "example.com/work"}},
		}}},
	}
}
