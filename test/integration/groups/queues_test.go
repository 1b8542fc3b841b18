package groups

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestRequiredQueue tests a profile that requires a Queue for all work. A derived gang without a
// Queue must wait as a whole and report the cause.
func TestRequiredQueue(t *testing.T) {
	t.Parallel()
	s := startOf(t, playground.Options{}, map[string]string{stage.Profile: "queues: {required: true}, groups: {kinds: [Job]}"})
	for name, test := range map[string]func(*stage.Stage){
		"the namespace gets a default queue":     namespaceGetsQueue,
		"the Job comes to name a queue":          jobNamesQueue,
		"the Job names a queue from the first":   jobHasQueue,
		"a queue that the namespace may not use": forbiddenQueue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// heldBack waits until the PodGroup of a Job and each of its pods report the reason why they wait.
// The pods must have no node.
func heldBack(s *stage.Stage, name, reason string, words ...string) {
	s.Helper()
	group(s, name, "says "+reason, waitsFor(reason, words...))
	for _, pod := range s.Pods(s.Context(), name) {
		s.WaitEvent(pod.Name, "FailedScheduling", append(words, reason)...)
	}
	noneStarts(s, name)
}

// inQueue returns a check for group: the gang must be in the queue and have minCount 3.
func inQueue(queue string) func(*v1alpha1.PodGroup) bool {
	return func(pg *v1alpha1.PodGroup) bool {
		return ptr.Deref(pg.Spec.QueueName, "") == queue && minCount(pg) == 3
	}
}

// startsWhole checks that the gang is in the queue, and waits while only two of its three members
// have room. Then it adds a node, and all members must run.
func startsWhole(s *stage.Stage, queue string) {
	s.Helper()
	group(s, "train-", "is in its queue", inQueue(queue))
	noRoom(s, "train-", "train-")
	s.AddNodes(1, "last")
	s.Runs("train-", 3)
	group(s, "train-", "is in its queue", inQueue(queue))
}

// namespaceGetsQueue tests a gang without a Queue. The gang must be placed after its namespace gets
// a default Queue.
func namespaceGetsQueue(s *stage.Stage) {
	s.AddNodes(2, "a")
	team := queue(s, v1alpha1.QueueSpec{})
	job(s, "train", on, "", "parallelism: 3")
	heldBack(s, "train-", v1alpha1.ReasonQueueRequired, s.Namespace, v1alpha1.AnnotationDefaultQueue)
	annotate(s, namespaceOf(s), v1alpha1.AnnotationDefaultQueue, team.Name)
	startsWhole(s, team.Name)
}

// jobNamesQueue tests a gang without a Queue. The gang must be placed after an annotation of its
// Job names a Queue.
func jobNamesQueue(s *stage.Stage) {
	s.AddNodes(2, "a")
	team := queue(s, v1alpha1.QueueSpec{})
	made := job(s, "train", on, "", "parallelism: 3")
	heldBack(s, "train-", v1alpha1.ReasonQueueRequired, s.Namespace, v1alpha1.AnnotationDefaultQueue)
	annotate(s, made, v1alpha1.AnnotationQueue, team.Name)
	startsWhole(s, team.Name)
}

// jobHasQueue tests a Job with a Queue, in a namespace without a default Queue. Its gang must be
// placed.
func jobHasQueue(s *stage.Stage) {
	s.AddNodes(2, "a")
	team := queue(s, v1alpha1.QueueSpec{})
	job(s, "train", fmt.Sprintf("%s, %s: %s", on, v1alpha1.AnnotationQueue, team.Name), "", "parallelism: 3")
	startsWhole(s, team.Name)
}

// forbiddenQueue tests a Queue whose selector does not match the namespace of a gang. The gang must
// wait until the selector matches.
func forbiddenQueue(s *stage.Stage) {
	s.AddNodes(2, "a")
	team := queue(s, v1alpha1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}})
	job(s, "train", fmt.Sprintf("%s, %s: %s", on, v1alpha1.AnnotationQueue, team.Name), "", "parallelism: 3")
	heldBack(s, "train-", v1alpha1.ReasonQueueNotAllowed, team.Name, s.Namespace)
	ofTeam(s, "red")
	startsWhole(s, team.Name)
}

// ofTeam sets the label "team" of the test's namespace.
func ofTeam(s *stage.Stage, team string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"team":%q}}}`, team)
	if err := s.Objects.Patch(s.Context(), namespaceOf(s), client.RawPatch(types.MergePatchType, patch)); err != nil {
		s.Fatal(err)
	}
}
