package grouping

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

const sparkName, sparkRole = "sparkoperator.k8s.io/app-name", "spark-role"

// executor adds an executor pod of a SparkApplication.
func (w *world) executor(name, application string) *corev1.Pod {
	return w.pod(name, "Pod/driver", sparkName, application, sparkRole, "executor")
}

// TestLostPods checks pods that have no node when their object is deleted. The pods must be blocked
// with a reason. A process that starts later must report the same kind of reason.
func TestLostPods(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind, spec string
		pod        func(w *world, name, object string) *corev1.Pod
	}{
		"which it owns": {"Job", "parallelism: 2", func(w *world, name, object string) *corev1.Pod { return w.pod(name, "Job/"+object) }},
		"which name it": {"SparkApplication", "executor: {instances: 2}", (*world).executor},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, tt.kind)
			w.object(tt.kind+"/train", "", gangOn, tt.spec)
			runs, waits := tt.pod(w, "runs", "train"), tt.pod(w, "waits", "train")
			runs.Spec.NodeName = "node-0"
			key, _ := w.GroupOf(runs)
			if w.group(waits) != "train" {
				t.Errorf("it waits in %q", w.group(waits))
			}
			w.Delete(types.UID(tt.kind + "/train"))
			w.held(waits, ReasonOwnerUnknown, tt.kind+" train", "deleted")
			if !slices.Equal(w.moved, []string{"waits"}) || !slices.Contains(w.changed, key) {
				t.Errorf("%q have been told, and %v", w.moved, w.changed)
			}
			if w.group(runs) != "train" {
				t.Errorf("the one that runs is in %q", w.group(runs))
			}
			w.object(tt.kind+"/single", "", "", tt.spec)
			w.Delete(types.UID(tt.kind + "/single"))
			if got := w.group(tt.pod(w, "alone", "single")); got != "" {
				t.Errorf("a pod of one that has asked for nothing is in %q", got)
			}
			later := newWorld(t, false, tt.kind)
			later.SetTrouble(BuiltIn()[tt.kind].Kind.GroupKind(), "")
			later.held(tt.pod(later, "waits", "train"), ReasonOwnerUnknown, tt.kind+" train", "deleted")
		})
	}
}

// TestHoldsAreTold checks that a changed reason for a block is reported, even if the pod does not
// change.
func TestHoldsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job")
	var told []string
	w.TellHolds(func(pod types.NamespacedName) { told = append(told, pod.String()) })
	w.object("Job/train", "", gangOn, "parallelism: 2")
	w.pod("p", "Job/train")
	step := func(gang, spec string, want ...string) {
		t.Helper()
		told = nil
		w.object("Job/train", "", fmt.Sprintf("reprieve.dev/gang: %q", gang), spec)
		if !slices.Equal(told, want) {
			t.Errorf("with %q, %q are told, want %q", gang, told, want)
		}
	}
	step("yes", "parallelism: 2", "ns/p")
	step("yes", "parallelism: 3")
	step("maybe", "parallelism: 3", "ns/p")
	step("true", "parallelism: 3", "ns/p")
	step("false", "parallelism: 3")
}

// TestPodAmidAChange adds a pod at each step of a change of its object. If the pod is blocked when
// it appears, the end of the block must be reported.
func TestPodAmidAChange(t *testing.T) {
	t.Parallel()
	for _, annotations := range []string{"", gangOn} {
		for look := 1; ; look++ {
			w := newWorld(t, false, "Job")
			var told []types.NamespacedName
			w.TellHolds(func(pod types.NamespacedName) { told = append(told, pod) })
			var late *corev1.Pod
			first, looks := gang.Verdict{}, 0
			w.looked = func() {
				if looks++; looks == look {
					w.looked = nil
					late = w.pod("late", "Job/j")
					first = w.Hold(late)
				}
			}
			w.object("Job/j", "", annotations, "parallelism: 2")
			if late == nil {
				if look < 3 {
					t.Fatalf("there were only %d looks", looks)
				}
				break
			}
			if v := w.Hold(late); v != (gang.Verdict{}) {
				t.Fatalf("held back for ever: %s", v.Message)
			}
			if isTold := slices.Contains(w.moved, "late") && len(told) > 0; !isTold && first != (gang.Verdict{}) {
				t.Errorf("annotations %q, after look %d: a pod that is held back at first, for %s, is not told when it is not any more", annotations, look, first.Reason)
			}
		}
	}
}

// TestMadeAnewUnseen checks an object that was deleted and created again while the watch was
// interrupted. An informer reports that as an update.
func TestMadeAnewUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "Job")
	job := func(uid types.UID) *unstructured.Unstructured {
		u := objectFrom(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: ns, name: train, annotations: {"+gangOn+"}}\nspec: {parallelism: 2}\n")
		u.SetUID(uid)
		return u
	}
	handler := w.handler(BuiltIn()["Job"].Kind.GroupKind())
	handler.OnAdd(job("Job/train"), true)
	key, _ := w.GroupOf(w.pod("p", "Job/train"))
	handler.OnUpdate(job("Job/train"), job("another"))
	if g, ok := w.Group(key); !ok || !g.Ended {
		t.Errorf("the group of the one that has gone is %+v, %t", g, ok)
	}
	w.pods = nil
	w.Sweep()
	if len(w.objects) != 1 || w.objects["another"] == nil || w.objects["another"].gone {
		t.Errorf("%d objects are known, want the one that is there", len(w.objects))
	}
}

// TestNamesakes checks an object with the name of a deleted object that still has pods. The pods of
// both objects have the same name label.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := map[string]struct {
		// age is the age of the pod minus the age of the second object; it is negative if the pod
		// is younger. runs is true if the pod has a node.
		age  time.Duration
		runs bool
		// unseen is true if the Resolver has never known the first object.
		unseen bool
		// want is the pod's object. It is empty for none.
		want     string
		wantHold bool
	}{
		"a pod that was made later":                {age: -time.Second, want: "second"},
		"one of the same second":                   {want: "second"},
		"one of another API server's second":       {age: time.Second, want: "second"},
		"an older one, which runs":                 {age: time.Minute, runs: true, want: "first"},
		"an older one, which waits":                {age: time.Minute, wantHold: true},
		"an older one, which runs, of one unknown": {age: time.Minute, runs: true, unseen: true},
		"an older one, which waits, likewise":      {age: time.Minute, unseen: true, wantHold: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, "SparkApplication")
			if !tt.unseen {
				w.application("first", at.Add(-time.Hour))
				w.Delete("first")
			}
			w.application("second", at)
			pod := w.executor("p", "spark")
			pod.CreationTimestamp = metav1.NewTime(at.Add(-tt.age))
			if tt.runs {
				pod.Spec.NodeName = "node-0"
			}
			key, ok := w.GroupOf(pod)
			g, _ := w.Group(key)
			if ok != (tt.want != "") || string(g.Owner.UID) != tt.want {
				t.Errorf("it belongs to %q, %t, want %q", g.Owner.UID, ok, tt.want)
			}
			if v := w.Hold(pod); !tt.runs && (v != gang.Verdict{}) != tt.wantHold || tt.wantHold && v.Reason != ReasonOwnerUnknown {
				t.Errorf("it is held back for %+v, want that it is: %t", v, tt.wantHold)
			}
		})
	}
}

// application adds a SparkApplication with the name spark and the given UID and creation time.
func (w *world) application(uid types.UID, at time.Time) {
	w.t.Helper()
	u := objectFrom(w.t, "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nmetadata: {namespace: ns, name: spark, annotations: {"+gangOn+"}}\nspec: {executor: {instances: 3}}\n")
	u.SetUID(uid)
	u.SetCreationTimestamp(metav1.NewTime(at))
	w.Set(u.GroupVersionKind().GroupKind(), u)
}

// TestNamesakesAreForgotten checks that a deleted object is remembered only while its own pods
// exist. Pods of the new object with the same name do not count.
func TestNamesakesAreForgotten(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := newWorld(t, false, "SparkApplication")
	w.application("first", at.Add(-time.Hour))
	old := w.executor("old", "spark")
	old.CreationTimestamp, old.Spec.NodeName = metav1.NewTime(at.Add(-time.Hour)), "node-0"
	before, _ := w.GroupOf(old)
	w.Delete("first")
	w.application("second", at)
	young := w.executor("young", "spark")
	young.CreationTimestamp = metav1.NewTime(at)
	w.Sweep()
	if key, _ := w.GroupOf(old); key != before {
		t.Errorf("the old executor is in %s, want %s", key, before)
	}
	if key, ok := w.GroupOf(young); key == before || !ok {
		t.Errorf("the new executor is in %s", key)
	}
	w.pods = slices.DeleteFunc(w.pods, func(pod *corev1.Pod) bool { return pod == old })
	w.Sweep()
	if w.objects["first"] != nil || w.objects["second"] == nil {
		t.Errorf("known are %v", w.objects)
	}
	// Under other rules, pods may be older than their object.
	theirs := newForeignWorld(t, "coscheduling")
	early := theirs.pod("early", "", "scheduling.x-k8s.io/pod-group", "g")
	early.CreationTimestamp = metav1.NewTime(at.Add(-time.Hour))
	u := objectFrom(t, "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {namespace: ns, name: g, uid: u}\nspec: {minMember: 2}\n")
	u.SetCreationTimestamp(metav1.NewTime(at))
	theirs.Set(u.GroupVersionKind().GroupKind(), u)
	if got := theirs.group(early); got != "g" {
		t.Errorf("a pod that is older than its PodGroup is in %q", got)
	}
}

// TestPartNames checks that different labels result in different names.
func TestPartNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, part := range []string{"a", "A", "a_", "A_", "gpu.large", "gpu-large", "GPU-large", "0", AnyName} {
		name := partName(part)
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q have the same name, %s", part, other, name)
		}
		seen[name] = part
		if flaws := validation.NameIsDNSSubdomain("x-"+name, false); len(flaws) > 0 {
			t.Errorf("%q has the name %s: %q", part, name, flaws)
		}
	}
	for _, part := range []string{"a", "0", "gpu-large"} {
		if name := partName(part); name != part {
			t.Errorf("%q has the name %s, which says less", part, name)
		}
	}
}
