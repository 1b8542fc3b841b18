package manifest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/manifest"
)

const template = `{metadata: {labels: {app: x}}, spec: {schedulerName: reprieve-scheduler, restartPolicy: Never, priorityClassName: high,
    containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]}}`

func stock(t *testing.T) *inventory.Inventory {
	t.Helper()
	class := func(name string, value int32, byDefault bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{
			TypeMeta: metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Value: value, GlobalDefault: byDefault, PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
		}
	}
	in, err := inventory.New(time.Unix(1e9, 0)).With(
		inventory.Change{Resource: inventory.PriorityClasses, Object: class("high", 1000, false)},
		inventory.Change{Resource: inventory.PriorityClasses, Object: class("usual", 7, true)},
		inventory.Change{Resource: "namespaces", Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}},
		inventory.Change{Resource: inventory.Pods, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "there"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func submit(t *testing.T, text string, vary manifest.Variation) (*manifest.Submission, error) {
	t.Helper()
	documents, err := manifest.Read("file.yaml", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	vary.Namespace, vary.QueueLabel = "team", v1alpha1.LabelQueue
	return manifest.Submit(t.Context(), stock(t), &config.KubeSchedulerConfiguration{}, documents, vary)
}

// summary lists the workloads. Each has kind/name, the number of pods, "together" for a gang, and
// the name and priority of the first pod.
func summary(s *manifest.Submission) string {
	var out []string
	for _, w := range s.Workloads {
		line := fmt.Sprintf("%s/%s %d", w.Kind, w.Name, len(w.Pods))
		if w.Gang {
			line += " together"
		}
		if len(w.Pods) > 0 {
			line += fmt.Sprintf(" %s@%d", w.Pods[0].Name, *w.Pods[0].Spec.Priority)
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	const group = "\n---\napiVersion: reprieve.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: high}\n"
	job := func(spec string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  " + spec + "\n  template: " + template + "\n"
	}
	four := int32(4)
	for name, c := range map[string]struct {
		text string
		vary manifest.Variation
		want string
	}{
		"a Pod, with what the API server fills in": {
			text: "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n", want: "Pod/p 1 p@7",
		},
		"a Job has as many pods as run at a time": {text: job("parallelism: 3"), want: "Job/j 3 j-0@1000"},
		"a Job with fewer completions than that":  {text: job("parallelism: 3\n  completions: 2"), want: "Job/j 2 j-0@1000"},
		"a suspended Job has none":                {text: job("suspend: true"), want: ""},
		"another number of replicas":              {text: job("parallelism: 3"), vary: manifest.Variation{Replicas: &four}, want: "Job/j 4 j-0@1000"},
		"another priority, by number":             {text: job("parallelism: 1"), vary: manifest.Variation{Priority: "42"}, want: "Job/j 1 j-0@42"},
		"another priority, by class":              {text: job("parallelism: 1"), vary: manifest.Variation{Priority: "usual"}, want: "Job/j 1 j-0@7"},
		"a Deployment": {
			text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 2, selector: {matchLabels: {app: x}}, template: " + template + "}\n",
			want: "Deployment/d 2 d-0@1000",
		},
		"a JobSet": {
			text: "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 3, template: " + template + "}}}]}\n",
			want: "JobSet/s 6 s-w-0-0@1000",
		},
		"the pods of a gang are decided on together": {
			text: strings.Replace(job("parallelism: 2"), "app: x", "reprieve.dev/pod-group: g", 1) + group, want: "PodGroup/g 2 together j-0@1000",
		},
		"a List counts as its items": {
			text: "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}, {apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {containers: [{name: c, image: i}]}}]\n",
			want: "Pod/p 1 p@7; Pod/q 1 q@7",
		},
		"what no decision depends on is named": {text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := submit(t, c.text, c.vary)
			if err != nil {
				t.Fatal(err)
			}
			if summary(got) != c.want {
				t.Errorf("It makes %q, want %q", summary(got), c.want)
			}
		})
	}
}

// TestSubmitFillsInGroups checks that a PodGroup gets the priority of its PriorityClass, as in a
// cluster.
func TestSubmitFillsInGroups(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: reprieve.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: high}\n"
	got, err := submit(t, text, manifest.Variation{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	object, _ := got.Objects.Find(inventory.PodGroups, "team", "g")
	var pg v1alpha1.PodGroup
	if err := object.Into(&pg); err != nil {
		t.Fatal(err)
	}
	if ptr.Deref(pg.Spec.Priority, 0) != 1000 || ptr.Deref(pg.Spec.QueueName, "") != "q" || ptr.Deref(pg.Spec.PreemptionPolicy, "") != corev1.PreemptLowerPriority {
		t.Errorf("The spec is %+v", pg.Spec)
	}
}

// TestPreemptionPolicies checks that a pod and a PodGroup get the same preemption policy. It is the
// policy of the PriorityClass. With a number as the priority, it is PreemptLowerPriority.
func TestPreemptionPolicies(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: quiet}\nvalue: 1\nglobalDefault: true\npreemptionPolicy: Never\n" +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n" +
		"---\napiVersion: reprieve.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {schedulingPolicy: {gang: {minCount: 2}}}\n"
	for name, c := range map[string]struct {
		priority string
		want     corev1.PreemptionPolicy
	}{
		"the default class": {want: corev1.PreemptNever},
		"a class":           {priority: "quiet", want: corev1.PreemptNever},
		"another class":     {priority: "high", want: corev1.PreemptLowerPriority},
		"a number":          {priority: "42", want: corev1.PreemptLowerPriority},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := submit(t, text, manifest.Variation{Priority: c.priority})
			if err != nil {
				t.Fatal(err)
			}
			groups, err := inventory.Decode[*v1alpha1.PodGroup](s.Objects, inventory.PodGroups)
			if err != nil {
				t.Fatal(err)
			}
			pod, group := ptr.Deref(s.Workloads[0].Pods[0].Spec.PreemptionPolicy, ""), ptr.Deref(groups[0].Spec.PreemptionPolicy, "")
			if pod != c.want || group != c.want {
				t.Errorf("The policy of the pod is %q and of the PodGroup %q, want %q", pod, group, c.want)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	pod := func(rest string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: " + rest + "\n"
	}
	ray := func(workers string) string {
		return "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: x}\nspec: {headGroupSpec: {template: " + template + "}, workerGroupSpecs: [{groupName: gpu, " + workers + ", template: " + template + "}]}\n"
	}
	jobSet := func(replicas, job string) string {
		return "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec: {replicatedJobs: [{name: w, " + replicas + ", template: {spec: {" + job + "template: " + template + "}}}]}\n"
	}
	leaderWorkers := func(replicas, size string) string {
		return "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: serve}\nspec: {" + replicas + ", leaderWorkerTemplate: {" + size + ", workerTemplate: " + template + "}}\n"
	}
	for name, c := range map[string]struct {
		text string
		vary manifest.Variation
		want string
	}{
		"nothing":                      {text: "# a comment\n", want: "line 1: there is nothing in it"},
		"no YAML":                      {text: "\n\na: [", want: "line 3: it is no YAML"},
		"no kind":                      {text: "metadata: {name: x}\n", want: "it does not say what it is"},
		"a field that there is not":    {text: pod("{containers: [{name: c, imgae: i}]}"), want: `unknown field "spec.containers[0].imgae"`},
		"a value of another type":      {text: pod("{containers: 3}"), want: "line 1: Pod \"p\""},
		"a quantity that is none":      {text: pod("{containers: [{name: c, resources: {limits: {cpu: lots}}}]}"), want: "quantities must match"},
		"no containers":                {text: pod("{}"), want: "spec.containers is empty"},
		"no name":                      {text: "apiVersion: v1\nkind: Pod\nspec: {}\n", want: "metadata.name is missing"},
		"a class that there is not":    {text: pod("{priorityClassName: none, containers: [{name: c}]}"), want: `no PriorityClass with name "none" exists`},
		"a namespace that there's not": {text: "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: gone}\nspec: {containers: [{name: c}]}\n", want: `namespace "gone" does not exist`},
		"a pod that is there":          {text: "apiVersion: v1\nkind: Pod\nmetadata: {name: there}\nspec: {containers: [{name: c}]}\n", want: "pod team/there exists already"},
		"a mistake in the second":      {text: pod("{containers: [{name: c}]}") + "---\n\n" + pod("{}"), want: "file.yaml, line 7"},
		"replicas of nothing":          {text: pod("{containers: [{name: c}]}"), vary: manifest.Variation{Replicas: ptr.To(int32(2))}, want: "--replicas is for what makes pods"},
		"hosts that overflow":          {text: ray("replicas: 65536, maxReplicas: 65536, numOfHosts: 65536"), want: "it makes 4294967296 pods; between 0 and 10000 are planned"},
		"replicas and hosts below 0":   {text: ray("replicas: -2, minReplicas: -2, numOfHosts: -3"), want: "worker group \"gpu\" has -2 replicas of -3 hosts; neither may be negative"},
		"too many Jobs":                {text: jobSet("replicas: 2000000000", "parallelism: 0, "), want: "it makes 2000000000 Jobs; between 0 and 10000 are planned"},
		"too many pods of Jobs":        {text: jobSet("replicas: 1000", "parallelism: 11, "), want: "it makes 11000 pods; between 0 and 10000 are planned"},
		"Jobs below 0":                 {text: jobSet("replicas: -1", ""), want: "it makes -1 Jobs; between 0 and 10000 are planned"},
		"too many workers":             {text: leaderWorkers("replicas: 5000", "size: 4"), want: "it makes 15000 pods; between 0 and 10000 are planned"},
		"a size below 0":               {text: leaderWorkers("replicas: 1", "size: -2147483648"), want: "it makes -2147483649 pods"},
		"the same pod twice":           {text: pod("{containers: [{name: c}]}") + "---\n" + pod("{containers: [{name: c}]}"), want: "is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := submit(t, c.text, c.vary)
			var mistake *manifest.Error
			if !errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
		})
	}
}

// TestDerivedGroups checks that an object that requests a gang becomes one workload, with the
// PodGroup that the scheduler would create for it.
func TestDerivedGroups(t *testing.T) {
	t.Parallel()
	cfg, err := schedulerapp.LoadConfig(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	const (
		gang = "annotations: {reprieve.dev/gang: 'true'}"
		set  = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: set, annotations: {reprieve.dev/gang: 'true'%s}}\n" +
			"spec: {replicatedJobs: [{name: a, template: {spec: {template: " + template + "}}}, {name: b, replicas: 2, template: {spec: {parallelism: 2, template: " + template + "}}}]}\n"
		lws = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: serve, annotations: {reprieve.dev/gang: 'true'}}\n" +
			"spec: {replicas: 2, startupPolicy: %s, leaderWorkerTemplate: {size: 3, workerTemplate: " + template + "}}\n"
		job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, " + gang + "}\nspec: {parallelism: 4, completions: 3, template: " + template + "}\n"
	)
	for name, c := range map[string]struct {
		text string
		vary manifest.Variation
		// want lists the workloads: kind/name, part, number of pods, and whether they are a gang.
		want []string
		// wantGroups lists the minCount of each PodGroup.
		wantGroups []int32
	}{
		"a Job":                         {text: job, want: []string{"Job/x  3 true"}, wantGroups: []int32{3}},
		"a Job, made larger":            {text: job, vary: manifest.Variation{Replicas: ptr.To[int32](5)}, want: []string{"Job/x  5 true"}, wantGroups: []int32{5}},
		"a JobSet":                      {text: fmt.Sprintf(set, ""), want: []string{"JobSet/set  5 true"}, wantGroups: []int32{5}},
		"a JobSet, by roles":            {text: fmt.Sprintf(set, ", reprieve.dev/gang-per: role"), want: []string{"JobSet/set a 1 true", "JobSet/set b 4 true"}, wantGroups: []int32{1, 4}},
		"a LeaderWorkerSet":             {text: fmt.Sprintf(lws, "LeaderCreated"), want: []string{"LeaderWorkerSet/serve 0 3 true", "LeaderWorkerSet/serve 1 3 true"}, wantGroups: []int32{3, 3}},
		"leaders that go before":        {text: fmt.Sprintf(lws, "LeaderReady"), want: []string{"LeaderWorkerSet/serve  2 false", "LeaderWorkerSet/serve 0 2 true", "LeaderWorkerSet/serve 1 2 true"}, wantGroups: []int32{2, 2}},
		"one that does not ask":         {text: strings.Replace(job, gang, "labels: {}", 1), want: []string{"Job/x  3 false"}},
		"one that asks in other words":  {text: strings.Replace(job, "'true'", "'yes'", 1), want: []string{"Job/x  3 false"}},
		"another queue and priority":    {text: job, vary: manifest.Variation{Queue: "q", Priority: "5"}, want: []string{"Job/x  3 true"}, wantGroups: []int32{3}},
		"what is made is not known yet": {text: "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\nspec: {schedule: '* * * * *', jobTemplate: {}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roots, err := derived.Roots(cfg)
			if err != nil {
				t.Fatal(err)
			}
			documents, err := manifest.Read("file.yaml", strings.NewReader(c.text))
			if err != nil {
				t.Fatal(err)
			}
			vary := c.vary
			vary.Namespace, vary.QueueLabel = "team", v1alpha1.LabelQueue
			s, err := manifest.Submit(t.Context(), stock(t).WithRoots(roots), cfg, documents, vary)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range s.Workloads {
				got = append(got, fmt.Sprintf("%s/%s %s %d %t", w.Kind, w.Name, w.Part, len(w.Pods), w.Gang))
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("the workloads are %q, want %q", got, c.want)
			}
			groups, err := inventory.Decode[*v1alpha1.PodGroup](s.Objects, inventory.PodGroups)
			if err != nil {
				t.Fatal(err)
			}
			var counts []int32
			for _, pg := range groups {
				counts = append(counts, pg.Spec.SchedulingPolicy.Gang.MinCount)
				if vary.Queue != "" && (ptr.Deref(pg.Spec.QueueName, "") != vary.Queue || ptr.Deref(pg.Spec.Priority, 0) != 5) {
					t.Errorf("the PodGroup is %+v", pg.Spec)
				}
			}
			slices.Sort(counts)
			if !slices.Equal(counts, c.wantGroups) {
				t.Errorf("the PodGroups need %d members, want %d", counts, c.wantGroups)
			}
		})
	}
}
