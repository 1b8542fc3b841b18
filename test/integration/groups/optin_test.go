package groups

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// always is a profile that makes every Job a gang. In the other profile, stage.Profile, only a Job
// with an annotation is a gang.
const always = "always"

// TestOptIn tests a scheduler with two profiles that differ in the Jobs that become gangs.
func TestOptIn(t *testing.T) {
	t.Parallel()
	s := startOf(t, playground.Options{}, map[string]string{
		stage.Profile: "groups: {kinds: [Job]}",
		always:        "groups: {kinds: [Job], optIn: Always}",
	})
	for name, test := range map[string]func(*stage.Stage){
		"a Job of the one is a gang, one of the other is not": unasked,
		"a Job of the one opts out":                           optsOutOfAlways,
		"a namespace opts out, and a Job in it does not":      namespaceOptsOut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// jobOfAlways creates a Job with six pods in the profile always.
func jobOfAlways(s *stage.Stage, name, annotations string) {
	s.Helper()
	jobOf(s, "schedulerName: "+always, name, annotations, "", "parallelism: 6")
}

// unasked tests a Job without an annotation in each profile. Each Job has six pods, and there are
// four CPUs. The Job in the profile always must wait as a gang. The pods of the other Job must be
// placed one by one.
func unasked(s *stage.Stage) {
	s.AddNodes(4, "a")
	jobOfAlways(s, "gang", "")
	noRoom(s, group(s, "gang-", "needs six", needs(6)).Name, "gang-")
	job(s, "crowd", "", "", "parallelism: 6")
	place(s, "four of six run that are no gang", "crowd-", 4)
	s.AddNodes(5, "b")
	place(s, "all six run that are no gang", "crowd-", 6)
	// Three of the nine CPUs are free. With three more, the gang of six fits.
	noneStarts(s, "gang-")
	s.AddNodes(3, "c")
	s.Runs("gang-", 6)
	if all := groups(s.Context(), s); len(all) != 1 {
		s.Errorf("there are %d PodGroups, want one", len(all))
	}
}

// optsOutOfAlways tests a Job that opts out in the profile always. Its pods must be placed one by
// one.
func optsOutOfAlways(s *stage.Stage) {
	s.AddNodes(4, "a")
	jobOfAlways(s, "crowd", `reprieve.dev/gang: "false"`)
	place(s, "four of six run", "crowd-", 4)
	none(s)
}

// namespaceOptsOut checks the order of precedence: the annotation of the Job, then the annotation
// of its namespace, then the profile.
func namespaceOptsOut(s *stage.Stage) {
	s.AddNodes(4, "a")
	annotate(s, namespaceOf(s), v1alpha1.AnnotationGang, "false")
	jobOfAlways(s, "gang", on)
	noRoom(s, group(s, "gang-", "needs six", needs(6)).Name, "gang-")
	jobOfAlways(s, "crowd", "")
	place(s, "four of six run", "crowd-", 4)
	noneStarts(s, "gang-")
	if all := groups(s.Context(), s); len(all) != 1 {
		s.Errorf("there are %d PodGroups, want that of the Job that asks for one", len(all))
	}
}

// TestSchedulingGroup tests pods that name a PodGroup of scheduling.k8s.io, although their Job
// would be a gang of six. The PodGroup has minCount 5. The pods must be its members, so five of
// them must run.
func TestSchedulingGroup(t *testing.T) {
	t.Parallel()
	if minor := stage.Kubernetes(t).Minor; minor < 36 {
		t.Skipf("pods of Kubernetes 1.%d have no spec.schedulingGroup", minor)
	}
	s := startOf(t, playground.Options{NativeWorkloadAPI: true}, map[string]string{stage.Profile: "groups: {kinds: [Job]}"}).In(t)
	native := s.With(stage.NativeGroups(t))
	s.AddNodes(4, "a")
	native.CreateGroup(stage.Group{Name: "mine", MinCount: 5})
	jobOf(s, "schedulerName: "+stage.Profile+", schedulingGroup: {podGroupName: mine}", "train", on, "", "parallelism: 6")
	native.WaitCondition("mine", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable)
	noneStarts(s, "train-")
	s.AddNodes(1, "b")
	place(s, "five of six run, all of which are needed", "train-", 5)
	native.WaitCondition("mine", v1alpha1.ConditionPodGroupScheduled, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	none(s)
	s.AddNodes(1, "c")
	s.Runs("train-", 6)
	none(s)
}
