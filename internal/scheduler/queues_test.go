package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

func TestQueueOf(t *testing.T) {
	groups := &gang.Store{}
	for _, g := range []gang.Group{
		{Key: types.NamespacedName{Namespace: "ns", Name: "own"}, Queue: "of-group"},
		{Key: types.NamespacedName{Namespace: "ns", Name: "native"}, Labels: map[string]string{v1alpha1.LabelQueue: "of-label", "team/queue": "of-key"}},
	} {
		groups.Set(&g)
	}
	h := &Hub{board: queue.NewBoard(), groups: groups}
	args := &configv1alpha1.ReprieveArgs{QueueLabelKey: ptr.To("team/queue")}
	configv1alpha1.SetDefaults(args)
	h.profiles.add("keyed", args)
	tests := map[string]struct {
		scheduler string
		labels    map[string]string
		want      string
	}{
		"a pod's own label":             {labels: map[string]string{v1alpha1.LabelQueue: "a"}, want: "a"},
		"by the key of its profile":     {scheduler: "keyed", labels: map[string]string{v1alpha1.LabelQueue: "a", "team/queue": "b"}, want: "b"},
		"its group's, not its own":      {labels: map[string]string{v1alpha1.LabelPodGroup: "own", v1alpha1.LabelQueue: "a"}, want: "of-group"},
		"the label of its group":        {labels: map[string]string{v1alpha1.LabelPodGroup: "native"}, want: "of-label"},
		"of its group, by that key":     {scheduler: "keyed", labels: map[string]string{v1alpha1.LabelPodGroup: "native"}, want: "of-key"},
		"none":                          {want: ""},
		"a group that is not there yet": {labels: map[string]string{v1alpha1.LabelPodGroup: "later", v1alpha1.LabelQueue: "a"}, want: "a"},
	}
	pods := make(map[string]*corev1.Pod)
	for name, tt := range tests {
		pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: tt.labels}, Spec: corev1.PodSpec{SchedulerName: tt.scheduler}}
		if got := h.queueOf(pods[name]); got != "" {
			t.Errorf("%s: queue %q, where there are none", name, got)
		}
	}
	h.board.SetQueue(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := h.queueOf(pods[name]); got != tt.want {
				t.Errorf("queue %q, want %q", got, tt.want)
			}
		})
	}
}
