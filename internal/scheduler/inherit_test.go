package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

// TestWhatIsInherited checks the nominations that a new leading scheduler finds. The leader must
// turn the valid nominations into reservations, and delete all others in memory and in the API.
func TestWhatIsInherited(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		minCount int
		// group is the PodGroup that the pods name. Only the PodGroup "g" exists.
		group  string
		change func(r *rig, p *corev1.Pod)
		want   bool
	}{
		"a pod's":                             {want: true},
		"a gang's":                            {group: "g", minCount: 2, want: true},
		"that of a gang that lacks members":   {group: "g", minCount: 3},
		"that of members without a PodGroup":  {group: "other", minCount: 2},
		"that of pods of another scheduler":   {change: func(_ *rig, p *corev1.Pod) { p.Spec.SchedulerName = "another" }, want: true},
		"that of a queue that does not exist": {change: func(_ *rig, p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.LabelQueue: "gone"} }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, node("node-0", "1"))
			r.sched.QueueSet(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
			r.gangOf("g", c.minCount, 10)
			pods := []*corev1.Pod{pod("p-0", c.group, "2", 10), pod("p-1", c.group, "2", 10)}
			ours := true
			for _, p := range pods {
				p.Status.NominatedNodeName = "node-0"
				if c.change != nil {
					c.change(r, p)
				}
				ours = p.Spec.SchedulerName == "reprieve-scheduler"
				if _, err := r.client.CoreV1().Pods("ns").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			r.eventually("they are known", func() bool {
				for _, p := range pods {
					if !r.sched.index.Exists(p) {
						return false
					}
				}
				return !ours || len(r.plugin.handle.NominatedPodsForNode("node-0")) == len(pods)
			})
			r.sched.Lead()
			for _, p := range pods {
				if got := r.sched.reserved.NodeOf(string(p.UID)) == "node-0"; got != (c.want && ours) {
					t.Errorf("Room is kept for %s: %v", p.Name, got)
				}
				takenBack := slices.ContainsFunc(r.evictor.taken(), func(n podstatus.Nomination) bool { return n.Pod.UID == p.UID && n.Node == "" })
				if takenBack == c.want {
					t.Errorf("The nomination of %s is taken back: %v", p.Name, takenBack)
				}
			}
			if n := len(r.plugin.handle.NominatedPodsForNode("node-0")); ours && (n > 0) != c.want {
				t.Errorf("%d pods are nominated in memory", n)
			}
		})
	}
}
