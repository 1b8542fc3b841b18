package scheduling

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestHalfGangs tests gangs whose members are evicted one by one. The youngest member of each gang
// is the least important. If the scheduler evicted the youngest pods, all gangs would fall below
// minCount. It must leave as few gangs below minCount as possible, and its message must name the
// gangs below minCount.
func TestHalfGangs(t *testing.T) {
	t.Parallel()
	type testCase struct {
		// gangs is the number of gangs. Each gang has size members, and each member runs on another
		// node.
		gangs, size int
		// members is the number of members of the preemptor, or 0 if the preemptor is a single pod.
		members    int
		wantBroken int
	}
	cases := map[string]testCase{
		"a gang of two beside two of two":    {gangs: 2, size: 2, members: 2, wantBroken: 1},
		"a gang of four beside four of four": {gangs: 4, size: 4, members: 4, wantBroken: 1},
		"a pod beside two of two":            {gangs: 2, size: 2, wantBroken: 1},
	}
	each(t, cases, func(e *env, c testCase) {
		nodes := []string{"a", "b", "c", "d"}[:c.size]
		e.AddNodes(int64(c.gangs), nodes...)
		name := func(gang int) string { return fmt.Sprintf("job%d", gang) }
		member := func(gang, m int) podSpec {
			return podSpec{name: fmt.Sprintf("%s-%d", name(gang), m), group: name(gang), cpus: 1, on: nodes[m], priority: "low"}
		}
		for g := range c.gangs {
			e.CreateGroup(stage.Group{Name: name(g), MinCount: int32(c.size), Priority: "low"})
			for m := range c.size {
				e.create(member(g, m))
			}
			e.waitBound(name(g), c.size)
		}
		// Delete one member of each gang, and create it again. So the youngest members of the gangs
		// are on different nodes.
		began := time.Now()
		e.Eventually("a second has passed", func(context.Context) string {
			if now := time.Now(); now.Unix() <= began.Unix() {
				return now.String()
			}
			return ""
		})
		for g := range c.gangs {
			last := member(g, g%c.size)
			e.remove(last.name)
			e.Gone(last.name)
			e.createRunning(last)
		}
		preemptor := "Pod/urgent"
		if c.members > 0 {
			preemptor = "PodGroup/urgent"
			e.gang(stage.Group{Name: "urgent", MinCount: int32(c.members), Priority: "high"}, c.members, podSpec{cpus: 1})
			e.waitBound("urgent", c.members)
		} else {
			e.create(podSpec{name: "urgent", cpus: 1, priority: "high"})
			e.waitRunning("urgent")
		}
		var broken []string
		e.Never("no more gangs are below minCount", func(ctx context.Context) string {
			broken = nil
			for g := range c.gangs {
				if e.bound(ctx, name(g)) < c.size {
					broken = append(broken, name(g))
				}
			}
			if len(broken) != c.wantBroken {
				return fmt.Sprintf("%v are", broken)
			}
			return ""
		})
		e.WaitEvent(preemptor, "Preempting", fmt.Sprintf("gang %s/%s falls below minCount", e.Namespace, broken[0]))
		if _, ok := e.PodGroup(e.Context(), broken[0]).(*v1alpha1.PodGroup); !ok || c.members > 0 {
			// Do not check the phase in these cases: only PodGroups of reprieve.dev have a phase,
			// and a preempting gang leaves no member of the broken gang.
			return
		}
		// The preemptor is a single pod, so one member of the broken gang remains.
		e.Eventually("it is degraded", func(ctx context.Context) string {
			pg, ok := e.PodGroup(ctx, broken[0]).(*v1alpha1.PodGroup)
			if !ok {
				return "it has gone"
			}
			if pg.Status.Phase != v1alpha1.PodGroupDegraded {
				return fmt.Sprintf("it is %s, with %s", pg.Status.Phase, strings.TrimSpace(fmt.Sprint(pg.Status.Conditions)))
			}
			return ""
		})
	})
}
