package filters

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestFewestInTheWay has nodes with enough room. Each of these nodes has pods that repel the
// members. The members must use the nodes with the fewest such pods, so that the fewest are
// evicted.
func TestFewestInTheWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// inTheWay is the number of repelling pods on each node.
		inTheWay []int
		members  int
		// apart is true if members repel each other too.
		apart bool
		want  int
	}{
		"one member":                  {inTheWay: []int{10, 10, 10, 1}, members: 1, want: 1},
		"several on one node":         {inTheWay: []int{10, 10, 10, 1}, members: 2, want: 1},
		"several that keep apart":     {inTheWay: []int{12, 12, 1, 2}, members: 2, apart: true, want: 3},
		"more for several than for 1": {inTheWay: []int{13, 12, 13, 3}, members: 4, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := nodes(len(tt.inTheWay), "16")
			for n, count := range tt.inTheWay {
				for i := range count {
					p := on(pod(fmt.Sprintf("batch-%d-%d", n, i), "", "1", 10), fmt.Sprintf("node-%d", n))
					p.Labels = map[string]string{"app": "batch"}
					objects = append(objects, p)
				}
			}
			all := members("g", tt.members, "2", 100)
			for _, p := range all {
				off := []string{"batch"}
				p.Labels["app"] = "urgent"
				if tt.apart {
					off = append(off, "urgent")
				}
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey:   corev1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: off}}},
				}}}}
			}
			d := newWorld(t, nil, objects...).decide(all...)
			if d.Outcome != core.Preempts || len(d.Victims) != tt.want {
				t.Errorf("%s, %d victims, want %d: %s", d.Outcome, len(d.Victims), tt.want, d.Message)
			}
		})
	}
}

// TestRoomOnRefusedNodes has nodes that a filter rejects. The units on these nodes must not count
// as evicted when the next member is placed.
func TestRoomOnRefusedNodes(t *testing.T) {
	t.Parallel()
	var objects []runtime.Object
	for _, name := range []string{"a-0", "a-1", "b-0", "c-0", "d-0"} {
		objects = append(objects, node(name, "8"))
		if name == "a-1" {
			first := on(pod("first", "", "8", 1), name)
			first.Status.StartTime = &metav1.Time{Time: time.Unix(1, 0)}
			objects = append(objects, first)
			continue
		}
		for i := range 8 {
			objects = append(objects, on(pod(fmt.Sprintf("%s-%d", name, i), "", "1", 1), name))
		}
	}
	all := members("g", 2, "8", 10)
	for i, on := range [][]string{{"c-0"}, {"a-0", "a-1"}} {
		volume, claim := localVolume(fmt.Sprint("pv-", i), ""), unboundClaim(fmt.Sprint("data-", i), "local", fmt.Sprint("pv-", i))
		volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = on
		volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: claim.Name, UID: claim.UID}
		volume.Status.Phase = corev1.VolumeBound
		claim.Annotations["pv.kubernetes.io/bind-completed"], claim.Status.Phase = "yes", corev1.ClaimBound
		claims(all[i], claim.Name)
		objects = append(objects, volume, claim)
	}
	d := newWorld(t, nil, objects...).decide(all...)
	if d.Outcome != core.Preempts || len(d.Victims) != 9 {
		t.Errorf("%s, %d victims, want those of a-1 and c-0: %s", d.Outcome, len(d.Victims), d.Message)
	}
}
