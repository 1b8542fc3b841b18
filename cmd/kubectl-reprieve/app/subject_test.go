package app

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// TestParseSubject checks that the argument can name a kind in each form that kubectl accepts.
func TestParseSubject(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"a": "pod ns/a", "po/a": "pod ns/a", "pod/a": "pod ns/a", "pods/a": "pod ns/a", "Pod/a": "pod ns/a", "pods.v1./a": "pod ns/a",
		"job/a": "job ns/a", "jobs/a": "job ns/a", "job.batch/a": "job ns/a", "jobs.v1.batch/a": "job ns/a",
		"pg/a": "podgroup ns/a", "PG/a": "podgroup ns/a", "podgroup/a": "podgroup ns/a", "podgroups/a": "podgroup ns/a",
		"pg.reprieve.dev/a": "podgroup ns/a", "podgroup.reprieve.dev/a": "podgroup ns/a", "podgroups.reprieve.dev/a": "podgroup ns/a",
		"podgroups.v1alpha1.reprieve.dev/a": "podgroup ns/a",
		"jobset/a":                          "jobset ns/a", "jobsets/a": "jobset ns/a", "JobSet/a": "jobset ns/a", "jobsets.v1alpha2.jobset.x-k8s.io/a": "jobset ns/a",
		"lws/a": "leaderworkerset ns/a", "leaderworkersets.leaderworkerset.x-k8s.io/a": "leaderworkerset ns/a", "mpijob/a": "mpijob ns/a",
		"pytorchjobs.kubeflow.org/a": "pytorchjob ns/a", "raycluster/a": "raycluster ns/a", "rayjob/a": "rayjob ns/a",
		"sparkapp/a": "sparkapplication ns/a", "sparkapplications/a": "sparkapplication ns/a",
		"": "", "pg/": "", "pg/a/b": "", "/a": "", "deploy/a": "", "deployments.apps/a": "", "queue/a": "",
		"podgroups.scheduling.volcano.sh/a": "", "pods.batch/a": "", "jobs.v1beta1.batch/a": "", "mpijobs.v1.kubeflow.org/a": "", "trainjob/a": "",
	} {
		got := ""
		about, err := parseSubject(arg, "ns")
		if err == nil {
			got = about.name()
		}
		if got != want || err != nil && codeOf(err) != exitUsage {
			t.Errorf("%q is %q, error %v; want %q", arg, got, err, want)
		}
	}
}

// TestHasEnough checks an object with several gangs: placed members of one gang do not count for
// another gang.
func TestHasEnough(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want bool
	}{
		"all that it needs":      {[]*corev1.Pod{placedPod("a-0", "a"), placedPod("a-1", "a")}, true},
		"one that waits":         {[]*corev1.Pod{placedPod("a-0", "a"), changedPod("a-1", "a", "")}, false},
		"as many, but of others": {[]*corev1.Pod{placedPod("b-0", "b"), placedPod("b-1", "b"), changedPod("a-0", "a", ""), changedPod("a-1", "a", "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := subject{kind: "LeaderWorkerSet", group: changedGang("a"), pods: c.pods, groups: gang.Named{}}
			if got := of.hasEnough(); got != c.want {
				t.Errorf("it has enough: %t, want %t", got, c.want)
			}
		})
	}
}

// TestFindNative checks that find finds a gang of scheduling.k8s.io with all its members.
func TestFindNative(t *testing.T) {
	t.Parallel()
	member := func(name, node string) *corev1.Pod {
		p := changedPod(name, "", "")
		p.APIVersion, p.Spec.NodeName, p.Spec.SchedulingGroup = "v1", node, &corev1.PodSchedulingGroup{PodGroupName: ptr.To("theirs")}
		return p
	}
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": map[string]any{"namespace": "ns", "name": "theirs"},
		"spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}},
	}}
	for name, c := range map[string]struct {
		of   string
		pods []*corev1.Pod
		// wantPods is the number of the gang's pods. want is true if enough of them have a node.
		wantPods int
		want     bool
	}{
		"all that it needs":      {"podgroup/theirs", []*corev1.Pod{member("a", "n"), member("b", "n"), member("c", "")}, 3, true},
		"too few":                {"podgroup/theirs", []*corev1.Pod{member("a", "n"), member("b", "")}, 2, false},
		"asked about by a pod":   {"pod/a", []*corev1.Pod{member("a", "n"), member("b", "n"), changedPod("c", "", "")}, 2, true},
		"one that has no member": {"podgroup/theirs", nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := []inventory.Change{{Resource: inventory.NativePodGroups, Object: group}}
			for _, pod := range c.pods {
				changes = append(changes, inventory.Change{Resource: inventory.Pods, Object: pod})
			}
			objects, err := inventory.New(time.Now()).With(changes...)
			if err != nil {
				t.Fatal(err)
			}
			groups, err := derived.New(objects, &config.KubeSchedulerConfiguration{})
			if err != nil {
				t.Fatal(err)
			}
			about, err := parseSubject(c.of, "ns")
			if err != nil {
				t.Fatal(err)
			}
			asked, err := newQuestion(objects, &config.KubeSchedulerConfiguration{}, groups)
			if err != nil {
				t.Fatal(err)
			}
			exists, err := about.find(asked)
			if err != nil || !exists || len(about.pods) != c.wantPods || about.hasEnough() != c.want {
				t.Errorf("it exists: %t, with %d pods, which are enough: %t; want %d pods, %t; error %v", exists, len(about.pods), about.hasEnough(), c.wantPods, c.want, err)
			}
		})
	}
}

// TestNarrow checks the part of an object that a question is about: the only part that waits. If
// several parts wait, the question is about none, and the user must choose one.
func TestNarrow(t *testing.T) {
	t.Parallel()
	a, b := changedGang("a"), changedGang("b")
	for name, c := range map[string]struct {
		all  []*v1alpha1.PodGroup
		pods []*corev1.Pod
		// want is the group that the question is about; "" for none. wantWaiting has the parts that
		// the user must choose from.
		want        string
		wantWaiting []string
	}{
		"a gang without pods":       {all: []*v1alpha1.PodGroup{a}, want: "a"},
		"a gang that runs":          {all: []*v1alpha1.PodGroup{a}, pods: []*corev1.Pod{placedPod("a-0", "a")}, want: "a"},
		"gangs that run":            {all: []*v1alpha1.PodGroup{a, b}, pods: []*corev1.Pod{placedPod("a-0", "a"), placedPod("b-0", "b")}},
		"one of two that waits":     {all: []*v1alpha1.PodGroup{a, b}, pods: []*corev1.Pod{placedPod("a-0", "a"), changedPod("b-0", "b", ""), changedPod("b-1", "b", "")}, want: "b"},
		"pods beside a gang":        {all: []*v1alpha1.PodGroup{a}, pods: []*corev1.Pod{placedPod("a-0", "a"), changedPod("x", "", ""), changedPod("y", "", "")}},
		"pods in a group not there": {pods: []*corev1.Pod{changedPod("a-0", "a", ""), changedPod("a-1", "a", "")}},
		"two that wait, and a pod":  {all: []*v1alpha1.PodGroup{a, b}, pods: []*corev1.Pod{changedPod("a-0", "a", ""), changedPod("b-0", "b", ""), changedPod("x", "", ""), changedPod("y", "", "")}, wantWaiting: []string{"podgroup/a", "podgroup/b", "pod/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := subject{all: c.all, pods: c.pods, groups: gang.Named{}}
			of.narrow()
			got := ""
			if of.group != nil {
				got = of.group.Name
			}
			if got != c.want || !slices.Equal(of.waiting, c.wantWaiting) {
				t.Errorf("it is about %q, with %q to choose from; want %q and %q", got, of.waiting, c.want, c.wantWaiting)
			}
		})
	}
}

// placedPod returns a member with a node.
func placedPod(name, group string) *corev1.Pod {
	p := changedPod(name, group, "")
	p.Spec.NodeName = "n"
	return p
}
