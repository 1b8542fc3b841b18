package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestWideGroups has groups on so many nodes that gains are computed only for some options. The
// number of victims must be nearly the same as with all gains.
func TestWideGroups(t *testing.T) {
	t.Parallel()
	const nodes, size = 1000, 400
	for name, tt := range map[string]struct {
		// of returns the index of the group of pod i on node n.
		of func(r *rand.Rand, n, i, groups int) int
		// wantMore is the permitted number of additional victims.
		wantMore int
	}{
		"dealt out in turn": {of: func(_ *rand.Rand, n, i, groups int) int { return (n + i*7) % groups }},
		"anywhere":          {of: func(r *rand.Rand, _, _, groups int) int { return r.IntN(groups) }, wantMore: 1},
		"large and small":   {of: func(r *rand.Rand, _, _, groups int) int { return min(r.IntN(groups), r.IntN(groups)) }, wantMore: 1},
	} {
		for _, gpus := range []int64{1, 8} {
			t.Run(fmt.Sprintf("%s, %d to a member", name, gpus), func(t *testing.T) {
				t.Parallel()
				groups := make([]*Group, nodes*8/size)
				for g := range groups {
					groups[g] = &Group{Name: fmt.Sprint(g), UID: fmt.Sprint("group-", g), Priority: int32(10 + g%5), Whole: true}
				}
				r := rand.New(rand.NewPCG(1, 2))
				c := benchCluster(t, gpuResources, nodes, Amounts{64000, 512 << 30, 8, 110}, func(n int) []RunningPod {
					pods := make([]RunningPod, 8)
					for i := range pods {
						pods[i] = RunningPod{Pod: benchPod(n, i, Amounts{1000, 4 << 30, 1, 1}), Group: groups[tt.of(r, n, i, len(groups))]}
					}
					return pods
				})
				p := gangOf(1000, 200, members("w", 200, 0, 1000, 4<<30, gpus, 1))
				chosen := func(all bool) int {
					v := newView(c.Snapshot(), p, Arithmetic{})
					v.narrowTo(potentialVictims{below: 1000})
					m := newNodeCosts(newSimulation(v, v.c.later), want{count: 200}, 1000, nil)
					if m.known == nil {
						t.Fatal("All is counted")
					}
					if all {
						m.known = nil
						m.lookAtAll()
					}
					if !m.choose() || !m.room() {
						t.Fatal("There is no room")
					}
					return len(m.chosen)
				}
				if got, most := chosen(false), chosen(true)+tt.wantMore; got > most {
					t.Errorf("%d units go, want %d at most", got, most)
				}
			})
		}
	}
}
