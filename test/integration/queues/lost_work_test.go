package queues

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestVictimsByLostWork tests the criterion LostWork. The victims can be one old pod or two young
// pods. The order of KEP-5710 selects the old pod, because it is a single pod. So does the default
// order, because no pod has run for a step. If lost work counts by the second, the young pods are
// the victims, because they lose less work. After a checkpoint, the old pod loses less work, so it
// is the victim.
func TestVictimsByLostWork(t *testing.T) {
	t.Parallel()
	const byPriority = "victimOrder: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, StartTime]"
	const byLostWork = "victimOrder: [BrokenBudgets, HighestPriority, LostWork, PrioritySum, Pods, Surplus, StartTime], lostWork: {step: 0s, podCost: 0s}"
	c := newCluster(t, 1,
		stage.ProfileConfig("by-priority", "{name: Reprieve, args: {"+byPriority+"}}"), stage.ProfileConfig("by-default", "{name: Reprieve, args: {}}"),
		stage.ProfileConfig("by-lost-work", "{name: Reprieve, args: {"+byLostWork+"}}"))
	c.classes()
	for _, play := range []struct {
		profile string
		saves   bool
		evicted string
	}{
		{profile: "by-priority", evicted: "old"},
		{profile: "by-default", evicted: "old"},
		{profile: "by-lost-work", evicted: "young"},
		{profile: "by-lost-work", saves: true, evicted: "old"},
	} {
		c.scene(fmt.Sprintf("%s, saves %v", play.profile, play.saves), func(c *cluster) {
			c.pod("old-0", 4, "low", nil, by(play.profile))
			c.Runs("old", 1)
			c.ranFor("old-0", 8*time.Second)
			for _, name := range []string{"young-0", "young-1"} {
				c.pod(name, 2, "low", nil, by(play.profile))
			}
			c.Runs("young", 2)
			if play.saves {
				c.ranFor("young-1", 4*time.Second)
				c.saves("old-0")
			}
			c.pod("urgent-0", 4, "high", nil, by(play.profile))
			c.Runs("urgent", 1)
			// The evicted pods do not return, because they have no controller.
			c.Runs(play.evicted, 0)
			stay := slices.DeleteFunc([]string{"old", "young"}, func(prefix string) bool { return prefix == play.evicted })[0]
			if n, want := len(c.Pods(c.Context(), stay)), map[string]int{"old": 1, "young": 2}[stay]; n != want {
				c.Errorf("%d pods of %s are left, want %d", n, stay, want)
			}
		})
	}
}

// ranFor waits until a pod has had a node for a duration.
func (c *cluster) ranFor(name string, least time.Duration) {
	c.Helper()
	c.Eventually(name+" has run for a while", func(context.Context) string {
		if ago := time.Since(scheduledAt(c.Pod(name))); ago < least {
			return fmt.Sprintf("for %v", ago)
		}
		return ""
	})
}

// saves sets the annotation of a pod that publishes a checkpoint, with the current time.
func (c *cluster) saves(name string) {
	c.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationLastCheckpoint, time.Now().UTC().Format(time.RFC3339))
	if _, err := c.Kube.CoreV1().Pods("default").Patch(c.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
}
