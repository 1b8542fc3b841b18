package queues

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// lcaCase is an example of the min-runtime document. The victim must be protected by the rule for
// the duration "window". The setting must come from the queue "by".
type lcaCase struct {
	// preemptor and victim are the names of leaf queues. If the names are equal, the preemptor
	// preempts by priority. Otherwise it reclaims.
	preemptor, victim string
	rule, by          string
	window            time.Duration
}

// TestMinRuntimeDocument tests the examples in the document "Reclaim/preempt min-runtime": three
// examples of lowest common ancestors, and two examples of preemption.
func TestMinRuntimeDocument(t *testing.T) {
	t.Parallel()
	c := oneNode(t)
	c.classes()
	reclaim := func(c *cluster) {
		c.queue("a")
		c.queue("b", "parent: a", "reclaimMinRuntime: 600s")
		c.queue("c", "parent: b")
		c.queue("d", "parent: b", "reclaimMinRuntime: 60s")
		c.queue("leaf1", "parent: c", "reclaimMinRuntime: 0s")
		c.queue("leaf2", "parent: c", "reclaimMinRuntime: 180s")
		c.queue("leaf3", "parent: d")
	}
	preempt := func(c *cluster) {
		c.queue("a")
		c.queue("b", "parent: a", "preemptMinRuntime: 600s")
		c.queue("c", "parent: b")
		c.queue("leaf1", "parent: c", "preemptMinRuntime: 300s")
		c.queue("leaf2", "parent: c")
	}
	for name, tt := range map[string]struct {
		tree func(*cluster)
		lcaCase
	}{
		"leaf1 from leaf3: that of D":                   {reclaim, lcaCase{"leaf1", "leaf3", "ReclaimMinRuntime", "d", time.Minute}},
		"leaf1 from leaf2: its own":                     {reclaim, lcaCase{"leaf1", "leaf2", "ReclaimMinRuntime", "leaf2", 3 * time.Minute}},
		"leaf3 from leaf1: that of C, inherited from B": {reclaim, lcaCase{"leaf3", "leaf1", "ReclaimMinRuntime", "b", 10 * time.Minute}},
		"preempt in leaf1: its own":                     {preempt, lcaCase{"leaf1", "leaf1", "PreemptMinRuntime", "leaf1", 5 * time.Minute}},
		"preempt in leaf2: from its grandparent":        {preempt, lcaCase{"leaf2", "leaf2", "PreemptMinRuntime", "b", 10 * time.Minute}},
	} {
		c.scene(name, func(c *cluster) {
			tt.tree(c)
			c.keptOut(tt.lcaCase)
		})
	}
	c.scene("leaf2 from leaf1: 0s is a setting of its own", func(c *cluster) {
		reclaim(c)
		c.takesAtOnce("leaf2", "leaf1", "")
	})
	c.scene("preempt with an explicit 0s below", func(c *cluster) {
		preempt(c)
		c.queue("leaf1", "parent: c", "preemptMinRuntime: 0s")
		c.takesAtOnce("leaf1", "leaf1", "high")
	})
}

// victim creates a gang in a leaf queue. The gang fills the node. victim returns the start time of
// the gang.
func (c *cluster) victim(leaf string) time.Time {
	c.Helper()
	c.team(team{name: "victim", queue: leaf, class: "low", members: 2, minCount: 2, gpus: 4, whole: true, change: []func(*corev1.Pod){linger}})
	return c.started("victim")
}

// keptOut checks that a preemptor waits until the victim's min-runtime ends. The message must name
// the queue whose setting applies.
func (c *cluster) keptOut(tt lcaCase) {
	c.Helper()
	c.queue("other")
	began := time.Now()
	end := c.victim(tt.victim).Add(tt.window)
	class := ""
	if tt.preemptor == tt.victim {
		class = "high"
	}
	c.pod("claim", 4, class, map[string]string{v1alpha1.LabelQueue: tt.preemptor})
	c.WaitsSaying("claim", "waits until "+end.UTC().Format(time.RFC3339), "default/victim ("+tt.rule+" of queue "+tt.by+") is protected no longer")
	c.nobodyGoes(began)
}

// takesAtOnce checks that a preemptor evicts a victim that has just started.
func (c *cluster) takesAtOnce(preemptor, victim, class string) {
	c.Helper()
	began := c.victim(victim)
	c.pod("claim", 4, class, map[string]string{v1alpha1.LabelQueue: preemptor})
	c.within(soon, func() { c.goes("victim-0", "victim-1") })
	// The gang must not have restarted between its start and the eviction.
	if now := c.started("victim"); !now.Equal(began) {
		c.Errorf("it has started at %v, want %v", now, began)
	}
}
