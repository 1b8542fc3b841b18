package kubectl

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

// rackJob is a Job whose annotations request a gang in one rack. The scheduler derives its
// PodGroup.
const rackJob = `apiVersion: batch/v1
kind: Job
metadata: {name: train, annotations: {reprieve.dev/gang: "true", reprieve.dev/topology-key: example.com/rack}}
spec:
  parallelism: 2
  template:
    spec: {schedulerName: reprieve-scheduler, restartPolicy: Never, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}
`

// TestWhenByDomain checks the times that the commands when, why and plan print for the racks of a
// gang that requires one rack. When the pods that when names have ended, the gang must run in the
// rack that when names.
func TestWhenByDomain(t *testing.T) {
	rack := func(name string, nodes int) playground.NodeGroup {
		return playground.NodeGroup{Prefix: name, Count: nodes, Labels: map[string]string{"example.com/rack": name}}
	}
	s := standOn(t, playground.SchedulerOptions{}, rack("a", 2), rack("b", 2), rack("c", 1))
	s.allow()
	// Each pod uses a whole node. 0 stands for a pod that declares no end.
	for node, seconds := range map[string]int{"a-0": 0, "a-1": 3000, "b-0": 4000, "b-1": 8000} {
		deadline := ""
		if seconds > 0 {
			deadline = fmt.Sprintf("activeDeadlineSeconds: %d, ", seconds)
		}
		s.create(fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: on-%s}\nspec: {schedulerName: reprieve-scheduler, terminationGracePeriodSeconds: 0, %s"+
			"nodeSelector: {kubernetes.io/hostname: %s}, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}\n", node, deadline, node))
	}
	s.eventually("the pods run", func() bool { return s.running("on-") == 4 })
	s.create(rackJob)

	want := []string{
		" in example.com/rack=b: activeDeadlineSeconds of pod default/on-b-1 ends it",
		"Domain: example.com/rack=b: room at the latest ",
		"Domain: example.com/rack=a: unknown: room for 1 of 2 after all declared ends; in the way: 1 unit protected by NotLowerPriority; 1 of the pods that run there declare no end.",
		"Domain: example.com/rack=c: never with its nodes as they are: room for 1 of 2 even without other pods.",
	}
	said := ""
	s.eventually("when names the racks", func() bool {
		_, said, _ = s.ask("", "when", "job/train")
		return strings.Contains(said, "At the latest")
	})
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("when says:\n%swant %q", said, w)
		}
	}
	const now = "example.com/rack=c: room for 1 of 2 now"
	if _, said, _ := s.ask("", "why", "job/train", "--remedies=false"); !strings.Contains(said, "Domain: "+now) {
		t.Errorf("why says:\n%swant %q", said, now)
	}
	if _, said, _ := s.ask(strings.Replace(rackJob, "name: train,", "name: more,", 1), "plan", "-f", "-"); !strings.Contains(said, "Domain "+now) {
		t.Errorf("plan says:\n%swant %q", said, now)
	}

	for _, name := range []string{"on-b-0", "on-b-1"} {
		s.must(nil, s.kube.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	s.eventually("the gang runs", func() bool { return len(s.onNodes("train-")) == 2 })
	for pod, node := range s.onNodes("train-") {
		if !strings.HasPrefix(node, "b-") {
			t.Errorf("%s is on %s, want a node of rack b", pod, node)
		}
	}
}

// running returns the number of pods with a start time whose names begin with a prefix.
func (s *stand) running(prefix string) (count int) {
	s.Helper()
	pods, err := s.kube.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; strings.HasPrefix(pod.Name, prefix) && pod.Status.StartTime != nil {
			count++
		}
	}
	return count
}
