package gang

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestSeal checks that reading a seal returns the fields that were written, with each of the
// functions that read a seal.
func TestSeal(t *testing.T) {
	t.Parallel()
	since := metav1.NewTime(time.Unix(1000, 0).UTC())
	for name, want := range map[string]Seal{
		"a pod":            {Priority: 7},
		"a pod in a queue": {Queue: "team", Priority: -1, Class: "low"},
		"a member":         {Group: "g", Priority: 7},
		"a member of all":  {Group: "g", Queue: "team", Priority: 7, Class: "low", MinCount: 3, Whole: true, Since: &since},
		"a head":           {Group: "", Queue: "team", MinCount: 3, Role: "head"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := want.Text()
			if err != nil {
				t.Fatal(err)
			}
			got, ok := ParseSeal(text)
			if ok && got.Since != nil && got.Since.Equal(want.Since) {
				got.Since = want.Since
			}
			if !ok || got != want {
				t.Errorf("%s is read as %+v, want %+v", text, got, want)
			}
			if queue := SealedQueue(text); queue != want.Queue {
				t.Errorf("the queue in %s is %q", text, queue)
			}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationPlacedAs: text}}, Spec: corev1.PodSpec{NodeName: "n"},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: since}}},
			}
			if role := RoleInSeal(pod); role != want.Role {
				t.Errorf("the role in %s is %q", text, role)
			}
			if group, _, ok := sealedGroup(text); !ok || group != want.Group {
				t.Errorf("the group in %s is %q", text, group)
			}
		})
	}
}

// TestGroupOfASealedPod checks whether the seal or the label determines the group of a pod.
func TestGroupOfASealedPod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node, seal, want string
		assumed          bool
	}{
		"assumed, with a forged seal":    {node: "n", assumed: true, seal: `{"group":"sealed"}`, want: "label"},
		"waiting":                        {want: "label"},
		"waiting, with a forged seal":    {seal: `{"group":"sealed"}`, want: "label"},
		"placed":                         {node: "n", seal: `{"group":"sealed","queue":"q"}`, want: "sealed"},
		"placed alone":                   {node: "n", seal: `{"group":"","queue":"q"}`},
		"placed without a seal":          {node: "n", want: "label"},
		"placed, with another text":      {node: "n", seal: "sealed", want: "label"},
		"placed, with a part of a seal":  {node: "n", seal: `{"group":"sea`, want: "label"},
		"placed, with another structure": {node: "n", seal: `{"queue":"q","group":"sealed"}`, want: "label"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "p", Labels: map[string]string{v1alpha1.LabelPodGroup: "label"},
				Annotations: map[string]string{v1alpha1.AnnotationPlacedAs: c.seal},
			}}
			if pod.Spec.NodeName = c.node; c.node != "" && !c.assumed {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			}
			key, ok := GroupOf(pod)
			if key.Name != c.want || ok != (c.want != "") {
				t.Errorf("the group is %q (%t), want %q", key.Name, ok, c.want)
			}
			if _, sealed := SealOf(pod); sealed && c.node == "" {
				t.Error("a pod without a node has a seal")
			}
		})
	}
}
