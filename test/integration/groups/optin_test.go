package groups

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// always is a profile in which every Job is a gang. In the other profile, stage.Profile, a Job must
// request it.
const always = "always"

// TestOptIn checks that each profile of one scheduler decides which Jobs are gangs.
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

// jobOfAlways creates a Job of six pods in the profile always.
func jobOfAlways(s *stage.Stage, name, annotations string) {
	s.Helper()
	jobOf(s, "schedulerName: "+always, name, annotations, "", "parallelism: 6")
}

// unasked checks two Jobs of six pods on four CPUs. The pods of the Job that is no gang use the
// free room, and the gang waits for room for all.
func unasked(s *stage.Stage) {
	s.AddNodes(4, "a")
	jobOfAlways(s, "gang", "")
	noRoom(s, group(s, "gang-", "needs six", needs(6)).Name, "gang-")
	job(s, "crowd", "", "", "parallelism: 6")
	place(s, "four of six run that are no gang", "crowd-", 4)
	s.AddNodes(5, "b")
	place(s, "all six run that are no gang", "crowd-", 6)
	// Three CPUs are free. With three more, the whole gang fits.
	noneStarts(s, "gang-")
	s.AddNodes(3, "c")
	s.Runs("gang-", 6)
	if all := groups(s.Context(), s); len(all) != 1 {
		s.Errorf("there are %d PodGroups, want one", len(all))
	}
}

// optsOutOfAlways checks that a Job that opts out uses any room.
func optsOutOfAlways(s *stage.Stage) {
	s.AddNodes(4, "a")
	jobOfAlways(s, "crowd", `reprieve.dev/gang: "false"`)
	place(s, "four of six run", "crowd-", 4)
	none(s)
}

// namespaceOptsOut checks that the annotation of an object precedes that of its namespace, and this
// one precedes the profile.
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

// TestSchedulingGroup checks that pods that name a PodGroup of scheduling.k8s.io are its members,
// regardless of their Job's annotations. The PodGroup needs five of the six pods; by the Job it
// would need six.
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
