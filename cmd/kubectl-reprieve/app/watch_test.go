package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// TestPause checks the pause between two reads of the cluster. A change of the watched work
// shortens it. However many changes there are, it is never shorter than restFor while the API
// server answers.
func TestPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// changes are the times of changes, from the read on. failing is true if the API server
		// does not answer.
		changes []time.Duration
		failing bool
		want    time.Duration
		// wantLeft is true if the signal of a change remains for the next pause.
		wantLeft bool
	}{
		"nothing changes":                       {want: lookEvery},
		"a change during the look":              {changes: []time.Duration{0}, want: restFor},
		"a change a little later":               {changes: []time.Duration{3 * time.Second}, want: restFor},
		"a change when there has been rest":     {changes: []time.Duration{8 * time.Second}, want: 8*time.Second + settleFor},
		"changes one upon another":              {changes: []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second}, want: restFor},
		"a change that the next look is not at": {changes: []time.Duration{0, 6 * time.Second}, want: restFor, wantLeft: true},
		"no answer":                             {changes: []time.Duration{0}, failing: true, want: retryEvery, wantLeft: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &watching{asking: &asking{clock: clock.RealClock{}}}
				if c.failing {
					w.failing = time.Now()
				}
				changed := make(chan struct{}, 1)
				begun := time.Now()
				for _, after := range c.changes {
					time.AfterFunc(after, func() {
						select {
						case changed <- struct{}{}:
						default:
						}
					})
				}
				if err := w.pause(t.Context(), changed); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(begun); got != c.want {
					t.Errorf("it looks after %v, want %v", got, c.want)
				}
				time.Sleep(lookEvery)
				if got := len(changed) > 0; got != c.wantLeft {
					t.Errorf("a change is left: %t, want %t", got, c.wantLeft)
				}
			})
		})
	}
}

// TestPauseIsInterrupted checks that an interrupt ends a pause, with and without changes.
func TestPauseIsInterrupted(t *testing.T) {
	t.Parallel()
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w := &watching{asking: &asking{clock: clock.RealClock{}}}
	for range 2 {
		if err := w.pause(ctx, changed); codeOf(err) != exitInterrupted {
			t.Errorf("it ends with %v", err)
		}
	}
}

// changedPod returns a pod. group is its PodGroup and owner is its ReplicaSet; "" for none.
func changedPod(name, group, owner string) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if group != "" {
		p.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
	}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: ptr.To(true)}}
	}
	return p
}

func changedPodOfJob(name, job string) *corev1.Pod {
	p := changedPod(name, "", job)
	p.OwnerReferences[0].Kind = "Job"
	return p
}

func changedGang(name string) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{TypeMeta: metav1.TypeMeta{Kind: "PodGroup"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 2}}
	return pg
}

func changedTree(name string) *v1alpha1.CompositePodGroup {
	c := &v1alpha1.CompositePodGroup{TypeMeta: metav1.TypeMeta{Kind: "CompositePodGroup"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	c.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: 1}
	return c
}

// treesOf returns the trees of a CompositePodGroup and its PodGroups.
func treesOf(t *testing.T, composite *v1alpha1.CompositePodGroup, parts ...*v1alpha1.PodGroup) *gang.Trees {
	t.Helper()
	changes := []inventory.Change{{Resource: inventory.Composites, Object: composite}}
	for _, part := range parts {
		changes = append(changes, inventory.Change{Resource: inventory.PodGroups, Object: part})
	}
	objects, err := inventory.New(time.Now()).With(changes...)
	if err != nil {
		t.Fatal(err)
	}
	trees, _, err := derived.Trees(objects, gang.Named{})
	if err != nil {
		t.Fatal(err)
	}
	return trees
}

// TestHave checks which objects of the namespace the method have recognizes as part of the watched
// work.
func TestHave(t *testing.T) {
	t.Parallel()
	pod, ofJob, podGroup := changedPod, changedPodOfJob, changedGang
	single := subject{kind: "Pod", pods: []*corev1.Pod{pod("web-1", "", "web")}}
	member := subject{kind: "Pod", group: podGroup("train"), pods: []*corev1.Pod{pod("web-1", "train", "set"), pod("train-1", "train", "set")}}
	job := subject{kind: "Job", pods: []*corev1.Pod{ofJob("web-1", "web")}}
	group := subject{kind: "PodGroup", group: podGroup("web"), pods: []*corev1.Pod{pod("web-1", "web", "")}}
	made := subject{kind: "PodGroup", group: podGroup("web"), pods: []*corev1.Pod{ofJob("made-1", "job")}}
	set := subject{
		kind: "LeaderWorkerSet", family: &family{rule: grouping.BuiltIn()["LeaderWorkerSet"], key: types.NamespacedName{Namespace: "ns", Name: "web"}},
		all: []*v1alpha1.PodGroup{podGroup("web-0"), podGroup("web-1")},
	}
	ofSet := func(name string) *corev1.Pod {
		p := pod("some-pod", "", "")
		p.Labels = map[string]string{"leaderworkerset.sigs.k8s.io/name": name}
		return p
	}
	inNative := pod("other", "", "")
	inNative.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("web")}
	composite, part := changedTree("web"), podGroup("part")
	part.Spec.ParentCompositePodGroupName = ptr.To("web")
	tree := subject{kind: "CompositePodGroup", all: []*v1alpha1.PodGroup{gang.AsPodGroup(composite)}, trees: treesOf(t, composite, part)}
	for name, c := range map[string]struct {
		of      subject
		changed any
		want    bool
	}{
		"a pod itself":                            {single, pod("web-1", "", "web"), true},
		"a pod, by the name asked about":          {single, pod("web", "", ""), true},
		"another pod of its ReplicaSet":           {single, pod("web-2", "", "web"), false},
		"a pod of a group":                        {single, pod("other", "train", ""), false},
		"a PodGroup beside a pod":                 {single, podGroup("train"), false},
		"another member of its gang":              {member, pod("train-2", "train", ""), true},
		"the gang of a pod":                       {member, podGroup("train"), true},
		"another gang":                            {member, pod("other-1", "other", ""), false},
		"a new pod of a Job":                      {job, ofJob("web-2", "web"), true},
		"a pod of another Job":                    {job, ofJob("other", "other"), false},
		"a member of a group":                     {group, pod("web-2", "web", ""), true},
		"a member of a group, by the field":       {group, inNative, true},
		"a pod in no group":                       {group, pod("other", "", "other"), false},
		"a PodGroup itself":                       {group, podGroup("web"), true},
		"another PodGroup":                        {group, podGroup("other"), false},
		"a new pod of an object":                  {set, ofSet("web"), true},
		"a pod of another object":                 {set, ofSet("other"), false},
		"a PodGroup of an object":                 {set, podGroup("web-1"), true},
		"a member of a PodGroup of an object":     {set, pod("other", "web-1", ""), true},
		"a tree itself":                           {tree, composite, true},
		"another tree":                            {tree, changedTree("other"), false},
		"a part of a tree":                        {tree, part, true},
		"a member of a part":                      {tree, pod("new", "part", ""), true},
		"a PodGroup with the name of the tree":    {tree, podGroup("web"), false},
		"a pod that its object makes for a group": {made, ofJob("made-2", "job"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.of.key, c.of.groups = types.NamespacedName{Namespace: "ns", Name: "web"}, gang.Named{}
			raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.changed)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.of.parts().have(&unstructured.Unstructured{Object: raw}); got != c.want {
				t.Errorf("it is a part: %t, want %t", got, c.want)
			}
		})
	}
}
