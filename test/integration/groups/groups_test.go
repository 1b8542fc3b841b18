package groups

import (
	"context"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const on = `reprieve.dev/gang: "true"`

func TestGroups(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.CreateClasses(map[string]int32{"urgent": 1000, "idle": -10})
	for name, test := range map[string]func(*stage.Stage){
		"a Job is placed whole":                placedWhole,
		"a Job is scaled":                      scaled,
		"a Job is suspended and runs again":    suspended,
		"a Job opts out":                       optsOut,
		"a group that is named wins":           namedWins,
		"a Job asks for what there is not":     asksAmiss,
		"a Job says how it is to be":           saysHow,
		"a JobSet, of a kind that comes late":  jobSet,
		"a Job of fewer completions":           fewerCompletions,
		"the last pods of a Job":               lastPods,
		"pods that have succeeded are deleted": succeededGo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// placedWhole tests a Job with six pods. On four CPUs, no pod may start. With more CPUs, all pods
// must start. The PodGroup must be deleted with the Job.
func placedWhole(s *stage.Stage) {
	s.AddNodes(4, "a")
	made := job(s, "train", on, "", "parallelism: 6, completions: 6, completionMode: Indexed")
	noRoom(s, "train-", "train-")
	pg := group(s, "train-", "needs six", needs(6))
	if len(pg.OwnerReferences) != 1 || pg.OwnerReferences[0].UID != made.GetUID() || pg.OwnerReferences[0].Controller != nil || pg.OwnerReferences[0].BlockOwnerDeletion != nil {
		s.Errorf("it is owned by %+v", pg.OwnerReferences)
	}
	for _, pod := range s.Pods(s.Context(), "train-") {
		if pod.Labels[v1alpha1.LabelPodGroup] != "" {
			s.Errorf("%s has been given the label of a group", pod.Name)
		}
	}
	s.AddNodes(4, "b")
	s.Runs("train-", 6)
	group(s, "train-", "runs", func(pg *v1alpha1.PodGroup) bool { return pg.Status.Phase == v1alpha1.PodGroupRunning })
	remove(s, made)
	none(s)
}

// scaled changes the parallelism of a Job. A waiting gang must need as many members as the Job has
// now. A running gang must grow if there is room, and need fewer members when the Job becomes
// smaller.
func scaled(s *stage.Stage) {
	s.AddNodes(4, "a")
	job(s, "train", on, "", "parallelism: 6")
	noRoom(s, "train-", "train-")
	change(s, "train", func(spec *batchv1.JobSpec) { spec.Parallelism = ptr.To[int32](7) })
	group(s, "train-", "needs seven", needs(7))
	change(s, "train", func(spec *batchv1.JobSpec) { spec.Parallelism = ptr.To[int32](3) })
	s.Runs("train-", 3)
	group(s, "train-", "needs three", needs(3))
	change(s, "train", func(spec *batchv1.JobSpec) { spec.Parallelism = ptr.To[int32](4) })
	s.Runs("train-", 4)
	change(s, "train", func(spec *batchv1.JobSpec) { spec.Parallelism = ptr.To[int32](2) })
	group(s, "train-", "needs two", needs(2))
	s.Runs("train-", 2)
}

// suspended suspends a Job and resumes it. After that, the Job must have a new PodGroup.
func suspended(s *stage.Stage) {
	s.AddNodes(4, "a")
	job(s, "train", on, "", "parallelism: 3")
	s.Runs("train-", 3)
	first := group(s, "train-", "is there", needs(3))
	change(s, "train", func(spec *batchv1.JobSpec) { spec.Suspend = ptr.To(true) })
	none(s)
	change(s, "train", func(spec *batchv1.JobSpec) { spec.Suspend = ptr.To(false) })
	s.Runs("train-", 3)
	second := group(s, "train-", "is there again", needs(3))
	if second.UID == first.UID || second.Name != first.Name {
		s.Errorf("the second run has group %s, %s; the first had %s, %s", second.Name, second.UID, first.Name, first.UID)
	}
}

// optsOut tests a namespace whose annotation makes all Jobs gangs. The pods of a Job that opts out
// must be placed one by one.
func optsOut(s *stage.Stage) {
	s.AddNodes(4, "a")
	annotate(s, namespaceOf(s), v1alpha1.AnnotationGang, "true")
	gang := job(s, "gang", "", "", "parallelism: 6")
	noRoom(s, "gang-", "gang-")
	remove(s, gang)
	none(s)
	job(s, "crowd", `reprieve.dev/gang: "false"`, "", "parallelism: 6")
	place(s, "four of six run", "crowd-", 4)
	none(s)
}

// namedWins tests pods with the label of an existing PodGroup, although an annotation of their Job
// requests a derived gang. The pods must be members of the existing PodGroup.
func namedWins(s *stage.Stage) {
	s.AddNodes(4, "a")
	create(s, "apiVersion: reprieve.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: mine}\nspec: {schedulingPolicy: {gang: {minCount: 2}}}\n")
	job(s, "train", on, v1alpha1.LabelPodGroup+": mine", "parallelism: 6")
	place(s, "four of six run, two of which are needed", "train-", 4)
	if all := groups(s.Context(), s); len(all) != 1 {
		s.Errorf("there are %d PodGroups, want the one that was written", len(all))
	}
}

// asksAmiss tests an invalid annotation of a Job. An event must report the annotation, and no pod
// may start.
func asksAmiss(s *stage.Stage) {
	s.AddNodes(4, "a")
	job(s, "train", `reprieve.dev/gang: "yes"`, "", "parallelism: 1")
	s.Eventually("its pod hears of it", func(ctx context.Context) string {
		for _, pod := range s.Pods(ctx, "train-") {
			if pod.Spec.NodeName != "" {
				return pod.Name + " has a node"
			}
			for _, e := range s.EventsOf(ctx, pod.Name, "NotGroupable") {
				if stage.Mentions(e.Message, []string{"Job train", v1alpha1.AnnotationGang, `"yes"`}) {
					return ""
				}
			}
		}
		return "it has not"
	})
	none(s)
}

// saysHow checks that the annotations of a Job set the queue, the priority class and the disruption
// mode of its PodGroup.
func saysHow(s *stage.Stage) {
	s.AddNodes(4, "a")
	job(s, "train", on+`, reprieve.dev/disruption-mode: PodGroup, reprieve.dev/priority-class: idle`, "", "parallelism: 2")
	s.Runs("train-", 2)
	pg := group(s, "train-", "is there", needs(2))
	if ptr.Deref(pg.Spec.DisruptionMode, "") != v1alpha1.DisruptionModePodGroup || ptr.Deref(pg.Spec.PriorityClassName, "") != "idle" || ptr.Deref(pg.Spec.Priority, 0) != -10 {
		s.Errorf("the group is made as %+v", pg.Spec)
	}
	s.Eventually("the scheduler's snapshot has it as one unit", func(ctx context.Context) string {
		state, err := s.Snapshot(ctx)
		if err != nil {
			return err.Error()
		}
		for _, unit := range state.Units {
			if unit.Name == pg.Name && unit.Group && len(unit.Pods) == 2 {
				return ""
			}
		}
		return fmt.Sprintf("it has %d units, and none of two pods that is called %s", len(state.Units), pg.Name)
	})
	// The annotation requests a higher priority than the pods have, so it must have no effect.
	job(s, "climb", on+`, reprieve.dev/priority-class: urgent`, "", "parallelism: 2")
	s.Runs("climb-", 2)
	if pg := group(s, "climb-", "is there", needs(2)); ptr.Deref(pg.Spec.Priority, -1) != 0 {
		s.Errorf("a group of pods without a class is made as %+v", pg.Spec)
	}
}

// jobSet tests a JobSet with two roles, whose Jobs are created one after the other. The pods of
// both roles must form one gang.
func jobSet(s *stage.Stage) {
	s.AddNodes(4, "a")
	serve(s, "jobset.x-k8s.io_jobsets")
	set := create(s, "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: set, annotations: {"+on+"}}\n"+
		"spec: {replicatedJobs: [{name: driver, template: {spec: {parallelism: 1, template: "+podTemplate+"}}}, "+
		"{name: worker, replicas: 2, template: {spec: {parallelism: 2, template: "+podTemplate+"}}}]}\n")
	role := func(name string) string { return "jobset.sigs.k8s.io/replicatedjob-name: " + name }
	job(s, "set-driver-0", "", role("driver"), "parallelism: 1", ownedBy(set))
	pg := group(s, "set-", "needs five", needs(5))
	job(s, "set-worker-0", "", role("worker"), "parallelism: 2", ownedBy(set))
	job(s, "set-worker-1", "", role("worker"), "parallelism: 2", ownedBy(set))
	noRoom(s, pg.Name, "set-")
	s.AddNodes(4, "b")
	s.Runs("set-", 5)
	if all := groups(s.Context(), s); len(all) != 1 || all[0].OwnerReferences[0].Kind != "JobSet" {
		s.Errorf("there are %d PodGroups, want one of the JobSet", len(all))
	}
	remove(s, set)
	none(s)
}

// fewerCompletions checks that the gang of a Job never needs more pods than the Job's completions.
func fewerCompletions(s *stage.Stage) {
	s.AddNodes(2, "a")
	job(s, "train", on, "", "parallelism: 6, completions: 3, completionMode: Indexed")
	noRoom(s, group(s, "train-", "needs three", needs(3)).Name, "train-")
	s.AddNodes(1, "b")
	s.Runs("train-", 3)
}

// lastPods tests the end of a Job: the remaining completions are fewer than the parallelism. If the
// succeeded pods are deleted, the last pod must still be able to start again.
func lastPods(s *stage.Stage) {
	s.AddNodes(4, "a")
	job(s, "train", on, "", "parallelism: 2, completions: 3, completionMode: Indexed")
	s.Runs("train-", 2)
	group(s, "train-", "runs", func(pg *v1alpha1.PodGroup) bool { return pg.Status.Scheduled == 2 && minCount(pg) == 2 })
	succeed(s, "train", s.Pods(s.Context(), "train-"))
	s.Eventually("the last pod runs", func(ctx context.Context) string {
		for _, pod := range s.Pods(ctx, "train-2-") {
			if pod.Status.Phase == corev1.PodRunning {
				return ""
			}
		}
		return "it does not"
	})
	madeAgain(s, "train-", "train-2-")
}

// succeededGo deletes the succeeded pods of a running gang. The gang must then need only the
// running pods, and continue to run.
func succeededGo(s *stage.Stage) {
	s.AddNodes(4, "a")
	job(s, "train", on, "", "parallelism: 4, completions: 4, completionMode: Indexed")
	s.Runs("train-", 4)
	// Wait for the start time of the gang. It is set once all members run at the same time.
	group(s, "train-", "is known to run", func(pg *v1alpha1.PodGroup) bool { return pg.Status.StartTime != nil })
	done := append(s.Pods(s.Context(), "train-0-"), s.Pods(s.Context(), "train-1-")...)
	succeed(s, "train", done)
	before := group(s, "train-", "counts those that have succeeded", func(pg *v1alpha1.PodGroup) bool {
		return minCount(pg) == 4 && pg.Status.Finished == 2 && pg.Status.Scheduled == 2 && pg.Status.StartTime != nil
	})
	for i := range done {
		remove(s, &done[i])
	}
	after := group(s, "train-", "counts them no more", func(pg *v1alpha1.PodGroup) bool {
		return minCount(pg) == 2 && pg.Status.Finished == 0 && pg.Status.Scheduled == 2
	})
	if !meta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionPodGroupScheduled) {
		s.Errorf("it counts as %+v", after.Status.Conditions)
	}
	if !after.Status.StartTime.Equal(before.Status.StartTime) {
		s.Errorf("it runs since %s, want %s as before", after.Status.StartTime, before.Status.StartTime)
	}
}

// succeed sets the phase of some pods to Succeeded, and waits until the Job has counted them.
func succeed(s *stage.Stage, job string, pods []corev1.Pod) {
	s.Helper()
	for _, pod := range pods {
		pod.Status.Phase = corev1.PodSucceeded
		if _, err := s.Kube.CoreV1().Pods(s.Namespace).UpdateStatus(s.Context(), &pod, metav1.UpdateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	s.Eventually("the Job counts them", func(ctx context.Context) string {
		found, err := s.Kube.BatchV1().Jobs(s.Namespace).Get(ctx, job, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if int(found.Status.Succeeded) != len(pods) {
			return fmt.Sprintf("it counts %d", found.Status.Succeeded)
		}
		return ""
	})
}

// madeAgain deletes all pods with a name prefix. It waits until a replacement whose name begins
// with last has a node.
func madeAgain(s *stage.Stage, prefix, last string) {
	s.Helper()
	before := s.Pods(s.Context(), prefix)
	for _, pod := range before {
		remove(s, &pod)
	}
	s.Eventually(last+" is made again and has a node", func(ctx context.Context) string {
		for _, pod := range s.Pods(ctx, last) {
			again := !slices.ContainsFunc(before, func(o corev1.Pod) bool { return o.UID == pod.UID })
			if again && pod.Spec.NodeName != "" {
				return ""
			}
		}
		return "it does not"
	})
}
