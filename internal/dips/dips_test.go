package dips

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDips(t *testing.T) {
	t.Parallel()
	type at struct {
		after int
		// cpu is the number of CPUs that the node offers from this time on; "" for no change, "-"
		// for none.
		cpu string
		// counts is the number of CPUs that the scheduler assumes for the node at this time.
		counts string
		// over is true if a dip has ended because its time has passed.
		over bool
	}
	tests := map[string]struct {
		steps []at
		left  int
	}{
		"as much as before":              {steps: []at{{0, "8", "8", false}, {20, "", "8", false}}},
		"more than before":               {steps: []at{{0, "9", "9", false}, {20, "", "9", false}}},
		"less for good":                  {steps: []at{{0, "5", "8", false}, {9, "", "8", false}, {10, "", "5", true}}},
		"less for some time":             {steps: []at{{0, "5", "8", false}, {9, "8", "8", false}, {11, "", "8", false}}},
		"less, then more than before":    {steps: []at{{0, "5", "8", false}, {9, "9", "9", false}, {11, "", "9", false}}},
		"less and less":                  {steps: []at{{0, "5", "8", false}, {9, "2", "8", false}, {10, "", "2", true}, {20, "", "2", false}}},
		"less, then somewhat more":       {steps: []at{{0, "5", "8", false}, {9, "7", "8", false}, {10, "", "7", true}}},
		"each dip has its own time":      {steps: []at{{0, "5", "8", false}, {9, "8", "8", false}, {10, "5", "8", false}, {12, "", "8", false}, {20, "", "5", true}}},
		"nothing, then as before":        {steps: []at{{0, "-", "8", false}, {9, "8", "8", false}, {11, "", "8", false}}},
		"nothing any more":               {steps: []at{{0, "-", "8", false}, {10, "", "0", true}}},
		"one that has begun is followed": {steps: []at{{0, "5", "8", false}}, left: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, began, now := New(), time.Unix(0, 0), node("a", "8")
			for _, step := range tt.steps {
				moment := began.Add(time.Duration(step.after) * time.Second)
				if step.cpu != "" {
					next := now.DeepCopy()
					if step.cpu == "-" {
						delete(next.Status.Allocatable, corev1.ResourceCPU)
					} else {
						next.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(step.cpu)
					}
					d.Follow(now, next, moment)
					now = next
				}
				over := d.Over(moment)
				if slices.Contains(over, "a") != step.over {
					t.Errorf("After %d s, dips are over on %v", step.after, over)
				}
				if cpu := d.Without(now).Status.Allocatable[corev1.ResourceCPU]; cpu.Cmp(resource.MustParse(step.counts)) != 0 {
					t.Errorf("After %d s, it counts for %s, want %s", step.after, cpu.String(), step.counts)
				}
			}
			if len(d.nodes) != tt.left {
				t.Errorf("%d nodes have dips, want %d", len(d.nodes), tt.left)
			}
			d.Forget("a")
			if len(d.nodes) != 0 {
				t.Error("A node that is gone has dips")
			}
		})
	}
}

// TestTemporaryTaints checks which taints of a node are ignored, and for how long.
func TestTemporaryTaints(t *testing.T) {
	t.Parallel()
	taint := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Effect: effect}
	}
	notReady := taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)
	evicts := taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	full, another := taint(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule), taint("another", corev1.TaintEffectNoSchedule)
	type at struct {
		after  int
		taints []corev1.Taint
		// counts is the number of taints that the scheduler sees on the node at this time.
		counts int
	}
	for name, steps := range map[string][]at{
		"never":                       {{0, nil, 0}},
		"for a moment":                {{0, []corev1.Taint{notReady}, 0}, {9, nil, 0}, {11, nil, 0}},
		"for good":                    {{0, []corev1.Taint{notReady}, 0}, {9, []corev1.Taint{notReady}, 0}, {10, []corev1.Taint{notReady}, 1}, {20, []corev1.Taint{notReady}, 1}},
		"again":                       {{0, []corev1.Taint{notReady}, 0}, {9, nil, 0}, {12, []corev1.Taint{notReady}, 0}, {21, []corev1.Taint{notReady}, 0}, {22, []corev1.Taint{notReady}, 1}},
		"another effect joins":        {{0, []corev1.Taint{notReady}, 0}, {9, []corev1.Taint{notReady, evicts}, 0}, {10, []corev1.Taint{notReady, evicts}, 2}},
		"one replaces another":        {{0, []corev1.Taint{notReady}, 0}, {9, []corev1.Taint{evicts}, 0}, {10, []corev1.Taint{evicts}, 1}},
		"the network is away":         {{0, []corev1.Taint{taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)}, 0}},
		"a full disk":                 {{0, []corev1.Taint{full}, 1}},
		"another taint counts beside": {{0, []corev1.Taint{another, notReady}, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, began, now := New(), time.Unix(0, 0), node("a", "8")
			for _, step := range steps {
				moment, next := began.Add(time.Duration(step.after)*time.Second), now.DeepCopy()
				next.Spec.Taints = step.taints
				d.Follow(now, next, moment)
				now = next
				d.Over(moment)
				if got := d.Without(now).Spec.Taints; len(got) != step.counts {
					t.Errorf("After %d s, it counts with the taints %v, want %d", step.after, got, step.counts)
				}
			}
			d.Forget("a")
			if len(d.nodes) != 0 {
				t.Error("A node that is gone has dips")
			}
		})
	}
}

// TestDipBeforeTheHandler checks that a dip counts as soon as the informer's store has it. The main
// loop and decisions may see the node before the handler reports the update.
func TestDipBeforeTheHandler(t *testing.T) {
	t.Parallel()
	ready, began := node("a", "8"), time.Unix(0, 0)
	less, again := ready.DeepCopy(), ready.DeepCopy()
	less.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	less.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2")
	stored := ready
	d := New()
	d.latest = func(string) (*corev1.Node, time.Time) { return stored, began }
	if _, dips := d.EndOf("a"); dips {
		t.Error("An unknown node has a dip")
	}
	d.Follow(&corev1.Node{}, ready, began)
	stored = less
	if got := d.Without(less); len(got.Spec.Taints) > 0 || got.Status.Allocatable.Cpu().Value() != 8 {
		t.Errorf("The node counts with %v and %v", got.Spec.Taints, got.Status.Allocatable)
	}
	d.Follow(ready, less, began.Add(time.Second))
	if end, dips := d.EndOf("a"); !dips || !end.Equal(began.Add(10*time.Second)) {
		t.Errorf("There is a dip: %t, until %v", dips, end)
	}
	stored = again
	if _, dips := d.EndOf("a"); dips {
		t.Error("The node has a dip after it has recovered")
	}
	if at, ok := d.SettlesAt("a"); !ok || !at.Equal(began.Add(settleTime)) {
		t.Errorf("Decisions know of the recovery at %v: %t", at, ok)
	}
	if d.Over(began.Add(settleTime)); len(d.settles) > 0 {
		t.Error("The recovery is never forgotten")
	}
	other := less.DeepCopy()
	other.UID, stored = "other", other
	if _, dips := d.EndOf("a"); dips {
		t.Error("A replaced node has a dip")
	}
	stored = nil
	if got := d.Without(less); got != less {
		t.Error("A deleted node has a dip")
	}
}

func node(name, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}
}
