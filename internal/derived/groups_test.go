package derived_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// configuration returns the scheduler's default configuration, which derives groups for Jobs,
// JobSets and LeaderWorkerSets.
func configuration(t *testing.T) *config.KubeSchedulerConfiguration {
	t.Helper()
	cfg, err := schedulerapp.LoadConfig(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// pods returns pods of the Job train in the given phase.
func pods(count int, phase corev1.PodPhase) []inventory.Change {
	out := make([]inventory.Change, count)
	for i := range out {
		name := strings.ToLower(string(phase)) + string(rune('a'+i))
		out[i] = inventory.Change{Resource: inventory.Pods, Object: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: name, UID: types.UID(name),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job", Controller: ptr.To(true)}},
			},
			Spec: corev1.PodSpec{SchedulerName: "reprieve-scheduler"}, Status: corev1.PodStatus{Phase: phase},
		}}
	}
	return out
}

// world returns an inventory with the Job train and further objects. text is the YAML of the Job's
// spec and status. If roots is nil, the inventory has no root kinds, like an older snapshot.
func world(t *testing.T, text string, roots []inventory.Root, more ...inventory.Change) *inventory.Inventory {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: ns, name: train, uid: job, annotations: {reprieve.dev/gang: 'true'}}\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	job := &unstructured.Unstructured{}
	if err := job.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	in, err := inventory.New(time.Unix(1e9, 0)).With(append(more,
		inventory.Change{Resource: "namespaces", Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}},
		inventory.Change{Resource: "jobs.batch", Object: job})...)
	if err != nil {
		t.Fatal(err)
	}
	if roots == nil {
		return in
	}
	return in.WithRoots(roots)
}

// asking returns the inventory with a Job train that requests a PriorityClass.
func asking(t *testing.T, in *inventory.Inventory, class string) *inventory.Inventory {
	t.Helper()
	found, ok := in.Find("jobs.batch", "ns", "train")
	if !ok {
		t.Fatal("there is no Job")
	}
	job := &unstructured.Unstructured{}
	if err := job.UnmarshalJSON(found.Raw); err != nil {
		t.Fatal(err)
	}
	job.SetAnnotations(map[string]string{v1alpha1.AnnotationGang: "true", v1alpha1.AnnotationPriorityClass: class})
	out, err := in.With(inventory.Change{Resource: "jobs.batch", Object: job})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestComplete checks that Complete adds the PodGroups that the scheduler will create, and updates
// existing PodGroups when their Job has changed.
func TestComplete(t *testing.T) {
	t.Parallel()
	all, err := derived.Roots(configuration(t))
	if err != nil || len(all) != 3 {
		t.Fatalf("there are %d kinds, error %v", len(all), err)
	}
	const four = "spec: {parallelism: 4}"
	// written returns the PodGroup that the scheduler writes for a gang of four. The function
	// changed edits it.
	written := func(t *testing.T, changed func(*v1alpha1.PodGroup)) inventory.Change {
		t.Helper()
		in, _, err := derived.Complete(t.Context(), world(t, four, all, pods(1, corev1.PodPending)...), configuration(t))
		if err != nil {
			t.Fatal(err)
		}
		made, err := inventory.Decode[*v1alpha1.PodGroup](in, inventory.PodGroups)
		if err != nil || len(made) != 1 {
			t.Fatalf("there are %d PodGroups, error %v", len(made), err)
		}
		changed(made[0])
		return inventory.Change{Resource: inventory.PodGroups, Object: made[0]}
	}
	runs := func(pg *v1alpha1.PodGroup) { pg.Status.Scheduled = 4 }
	ofAnother := func(pg *v1alpha1.PodGroup) { pg.OwnerReferences[0].UID = "another" }
	asIs := func(*v1alpha1.PodGroup) {}
	for name, c := range map[string]struct {
		job   string
		roots []inventory.Root
		pods  []inventory.Change
		group func(*v1alpha1.PodGroup)
		// want is the minCount of the PodGroup; 0 for no PodGroup.
		want int32
	}{
		"a gang of which one pod is there":   {job: four, roots: all, pods: pods(1, corev1.PodPending), want: 4},
		"one that has none":                  {job: four, roots: all},
		"an older snapshot":                  {job: four, pods: pods(1, corev1.PodPending)},
		"one that has grown, and waits":      {job: "spec: {parallelism: 6}", roots: all, pods: pods(1, corev1.PodPending), group: asIs, want: 6},
		"one that has grown, and runs":       {job: "spec: {parallelism: 6}", roots: all, pods: pods(1, corev1.PodPending), group: runs, want: 4},
		"one that is less, and runs":         {job: "spec: {parallelism: 2}", roots: all, pods: pods(1, corev1.PodPending), group: runs, want: 2},
		"a group of that name, of another":   {job: "spec: {parallelism: 6}", roots: all, pods: pods(1, corev1.PodPending), group: ofAnother, want: 4},
		"the last two, and the others gone":  {job: "spec: {parallelism: 4, completions: 6}\nstatus: {succeeded: 4}", roots: all, pods: pods(2, corev1.PodPending), group: asIs, want: 2},
		"the last two, and the others there": {job: "spec: {parallelism: 4, completions: 6}\nstatus: {succeeded: 4}", roots: all, pods: append(pods(2, corev1.PodPending), pods(4, corev1.PodSucceeded)...), group: asIs, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			more := c.pods
			if c.group != nil {
				more = append(more, written(t, c.group))
			}
			in, _, err := derived.Complete(t.Context(), world(t, c.job, c.roots, more...), configuration(t))
			if err != nil {
				t.Fatal(err)
			}
			made, err := inventory.Decode[*v1alpha1.PodGroup](in, inventory.PodGroups)
			if err != nil {
				t.Fatal(err)
			}
			var got int32
			for _, pg := range made {
				got += pg.Spec.SchedulingPolicy.Gang.MinCount
				if pg.Spec.Priority == nil {
					t.Error("the priority is not filled in")
				}
			}
			if got != c.want {
				t.Errorf("%d PodGroups need %d members, want %d", len(made), got, c.want)
			}
		})
	}
}

// TestHeld checks that a pod is gated if its owner is not in the inventory, and that the verdict
// has the reason.
func TestHeld(t *testing.T) {
	t.Parallel()
	all, err := derived.Roots(configuration(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].Kind == "Job" {
			all[i].Trouble = "you may not list jobs.batch"
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "other", UID: "other", Controller: ptr.To(true)}}},
		Spec:       corev1.PodSpec{SchedulerName: "reprieve-scheduler"},
	}
	for name, c := range map[string]struct {
		roots []inventory.Root
		want  string
	}{
		"for want of rights":       {all, "you may not list jobs.batch"},
		"for want of a --config":   {[]inventory.Root{}, "not asked for when the snapshot was taken"},
		"not, in an older version": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groups, err := derived.New(world(t, "spec: {}", c.roots), configuration(t))
			if err != nil {
				t.Fatal(err)
			}
			if v := groups.Hold(pod); !strings.Contains(v.Message, c.want) || c.want == "" && v.Reason != "" {
				t.Errorf("it is held back for %q, want %q", v.Message, c.want)
			}
		})
	}
}

// TestUnwritten checks that a gang gets no PodGroup if its Job requests a missing PriorityClass,
// and that Unwritten has the reason.
func TestUnwritten(t *testing.T) {
	t.Parallel()
	all, err := derived.Roots(configuration(t))
	if err != nil {
		t.Fatal(err)
	}
	in := asking(t, world(t, "spec: {parallelism: 1}", all, pods(1, corev1.PodPending)...), "none")
	completed, groups, err := derived.Complete(t.Context(), in, configuration(t))
	if err != nil {
		t.Fatal(err)
	}
	lacking := groups.Unwritten()
	if len(completed.Objects(inventory.PodGroups)) != 0 || len(lacking) != 1 || lacking[0].Object != "Job train" || !strings.Contains(lacking[0].Why, `PriorityClass "none"`) {
		t.Errorf("there are %d PodGroups, and not written are %+v", len(completed.Objects(inventory.PodGroups)), lacking)
	}
}
