package groups

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestForeign tests pods that were written for other schedulers, such as Volcano. The pods use the
// labels, annotations and kinds of these schedulers.
func TestForeign(t *testing.T) {
	t.Parallel()
	config, err := stage.Config{Profiles: []string{stage.ProfileConfig(stage.Profile,
		"{name: Reprieve, args: {groups: {labels: [coscheduling, volcano, kai, koordinator]}}}")}}.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := stage.New(t, playground.Options{Scheduler: playground.SchedulerOptions{Config: config}})
	for group, version := range map[string]string{"scheduling.x-k8s.io": "v1alpha1", "scheduling.volcano.sh": "v1beta1", "scheduling.run.ai": "v2alpha2"} {
		s.ApplyText(crd(group, version, "PodGroup", "podgroups"))
	}
	s.ApplyText("apiVersion: reprieve.dev/v1alpha1\nkind: Queue\nmetadata: {name: red}\nspec: {}\n")
	for name, test := range map[string]func(*stage.Stage){
		"coscheduling": func(s *stage.Stage) {
			theirs(s, "scheduling.x-k8s.io/v1alpha1", "minMember: 3", "", func(pod *corev1.Pod) { pod.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "train"} })
		},
		"Volcano": func(s *stage.Stage) {
			theirs(s, "scheduling.volcano.sh/v1beta1", "minMember: 3, queue: red", "red", func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{"scheduling.k8s.io/group-name": "train"}
			})
		},
		"KAI": func(s *stage.Stage) {
			theirs(s, "scheduling.run.ai/v2alpha2", "minMember: 3", "red", func(pod *corev1.Pod) {
				pod.Labels, pod.Annotations = map[string]string{"kai.scheduler/queue": "red"}, map[string]string{"pod-group-name": "train"}
			})
		},
		"Koordinator": koordinator,
		"taken off":   takenOff,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// pods creates three pods that request one CPU each. write adds the labels and annotations of
// another scheduler.
func pods(s *stage.Stage, write func(*corev1.Pod)) {
	s.Helper()
	for i := range 3 {
		pod := stage.NewPod(s.Namespace, fmt.Sprint("train-", i), "", 1)
		write(pod)
		s.Create(pod)
	}
}

// theirs tests pods that name a PodGroup of another scheduler's API. The pods must wait until this
// PodGroup exists. Then Reprieve must derive its own PodGroup from it, and place the pods as a
// whole. The derived PodGroup must be deleted together with the other scheduler's PodGroup.
func theirs(s *stage.Stage, apiVersion, spec, queue string, write func(*corev1.Pod)) {
	s.AddNodes(2, "a")
	pods(s, write)
	s.Eventually("the pods hear that their PodGroup is missing", func(ctx context.Context) string {
		for i := range 3 {
			if len(s.EventsOf(ctx, fmt.Sprint("train-", i), "OwnerUnknown")) > 0 {
				return ""
			}
		}
		return "there is no event"
	})
	made := create(s, fmt.Sprintf("apiVersion: %s\nkind: PodGroup\nmetadata: {name: train}\nspec: {%s}\n", apiVersion, spec))
	noRoom(s, "train-", "train-")
	pg := group(s, "train-", "needs three", needs(3))
	if len(pg.OwnerReferences) != 1 || pg.OwnerReferences[0].UID != made.GetUID() || ptr.Deref(pg.Spec.QueueName, "") != queue {
		s.Errorf("it is owned by %+v, and in queue %q", pg.OwnerReferences, ptr.Deref(pg.Spec.QueueName, ""))
	}
	s.AddNodes(2, "b")
	s.Runs("train-", 3)
	for i := range 3 {
		remove(s, s.Pod(fmt.Sprint("train-", i)))
	}
	remove(s, made)
	none(s)
}

// takenOff removes the annotation with which pods name a missing PodGroup of another scheduler. The
// pods must then run as single pods.
func takenOff(s *stage.Stage) {
	const names = "scheduling.k8s.io/group-name"
	s.AddNodes(4, "a")
	pods(s, func(pod *corev1.Pod) { pod.Annotations = map[string]string{names: "never"} })
	s.Eventually("a pod hears that its PodGroup is missing", func(ctx context.Context) string {
		if len(s.EventsOf(ctx, "train-0", "OwnerUnknown"))+len(s.EventsOf(ctx, "train-1", "OwnerUnknown"))+len(s.EventsOf(ctx, "train-2", "OwnerUnknown")) == 0 {
			return "there is no event"
		}
		return ""
	})
	for i := range 3 {
		annotate(s, s.Pod(fmt.Sprint("train-", i)), names, "")
	}
	s.Runs("train-", 3)
}

// koordinator tests pods of a gang without an object: an annotation of the pods has the size of the
// gang.
func koordinator(s *stage.Stage) {
	s.AddNodes(2, "a")
	pods(s, func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{"gang.scheduling.koordinator.sh/name": "train", "gang.scheduling.koordinator.sh/min-available": "3"}
	})
	noRoom(s, "train-", "train-")
	if pg := group(s, "train-", "needs three", func(pg *v1alpha1.PodGroup) bool { return minCount(pg) == 3 }); len(pg.OwnerReferences) > 0 {
		s.Errorf("it is owned by %+v", pg.OwnerReferences)
	}
	s.AddNodes(2, "b")
	s.Runs("train-", 3)
	for i := range 3 {
		remove(s, s.Pod(fmt.Sprint("train-", i)))
	}
	none(s)
}

// crd returns a CRD whose schema accepts any spec.
func crd(group, version, kind, plural string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[4]s}
  versions:
  - name: %[2]s
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`, group, version, kind, plural)
}
