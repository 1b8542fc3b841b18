package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// brokenNames returns the names of the gangs that a decision breaks.
func brokenNames(d *Decision) []string {
	var names []string
	for _, g := range d.BrokenGangs {
		names = append(names, strings.TrimPrefix(g.Name, "uid-"))
	}
	return names
}

// fourGangs has four gangs with four members each. Every node has one member of each gang. The
// members that started last are on one node.
func fourGangs(leaf string) *build {
	b := clusterOf("gpu")
	for n := range 4 {
		b.node(fmt.Sprintf("n%d", n), 4)
	}
	for g := range 4 {
		membership := &QueueMembership{Queue: leaf, MinCount: 4}
		for m := range 4 {
			b.pod(fmt.Sprintf("g%d-%d", g, m), fmt.Sprintf("n%d", m), 1, 1, inPodGroup(fmt.Sprintf("uid-g%d", g)), startedAt(int64(1+(m+g)%4)), func(u *Unit) {
				u.Membership, u.Running = membership, true
			})
		}
	}
	return b
}

func TestFewerGangsFallBelowMinCount(t *testing.T) {
	// One member of each Job started later than the other.
	twoJobs := func(leaf string) *build {
		membership := &QueueMembership{Queue: leaf, MinCount: 2}
		member := func(job string, start int64) []unitOption {
			return []unitOption{inPodGroup("uid-" + job), startedAt(start), func(u *Unit) { u.Membership, u.Running = membership, true }}
		}
		return clusterOf("gpu").node("n", 2).node("m", 2).
			pod("a-0", "n", 0, 1, member("a", 3)...).pod("a-1", "m", 0, 1, member("a", 1)...).
			pod("b-0", "n", 0, 1, member("b", 1)...).pod("b-1", "m", 0, 1, member("b", 4)...)
	}
	tests := map[string]struct {
		cluster    *build
		queues     []fairshare.Queue
		preemptor  *Preemptor
		wantBroken []string
		// wantVictims are the expected victims; nil to accept any.
		wantVictims []string
		wantMessage string
	}{
		"one Job rather than a member of each of two, by priority": {
			cluster: twoJobs(""), preemptor: gangOf(5, 2, members("w", 2, 0, 1)),
			wantBroken: []string{"a"}, wantVictims: []string{"a-0", "a-1"}, wantMessage: "; gang ns/uid-a falls below minCount",
		},
		"one Job rather than a member of each of two, by reclaim": {
			cluster: twoJobs("b"), queues: []fairshare.Queue{queue("a"), queue("b")},
			preemptor: with(gangOf(0, 2, members("w", 2, 0, 1)), ofQueue("a")), wantBroken: []string{"b"},
		},
		"one gang of four, by priority": {cluster: fourGangs(""), preemptor: gangOf(5, 4, members("w", 4, 0, 1)), wantBroken: []string{"g0"}},
		"one gang of four, by reclaim": {
			cluster: fourGangs("b"), queues: []fairshare.Queue{queue("a"), queue("b")},
			preemptor: with(gangOf(0, 4, members("w", 4, 0, 1)), ofQueue("a")), wantBroken: []string{"g0"},
		},
		"two gangs of four for five members": {
			cluster: fourGangs(""), preemptor: gangOf(5, 5, members("w", 5, 0, 1)), wantBroken: []string{"g0", "g1"},
			wantMessage: "; gangs ns/uid-g0 and ns/uid-g1 fall below minCount",
		},
		"a pod takes both members of one Job from a node": {
			cluster: clusterOf("gpu").node("n", 4).elasticGang("a", "", 2, 0, 1, []string{"n", "n"}, startedAt(1)).
				elasticGang("b", "", 1, 0, 1, []string{"n"}, startedAt(9)).elasticGang("c", "", 1, 0, 1, []string{"n"}, startedAt(8)),
			preemptor: podOf(5, 2), wantBroken: []string{"a"}, wantVictims: []string{"a-0", "a-1"},
		},
		"pods beside gangs go first": {
			cluster: clusterOf("gpu").node("n", 2).node("m", 2).elasticGang("a", "", 2, 0, 1, []string{"n", "m"}, startedAt(9)).
				pod("p", "n", 0, 1, startedAt(1)).pod("q", "m", 0, 1, startedAt(1)),
			preemptor: gangOf(5, 2, members("w", 2, 0, 1)), wantVictims: []string{"p", "q"},
		},
		"priority comes first": {
			cluster: clusterOf("gpu").node("n", 1).node("m", 1).node("o", 1).elasticGang("a", "", 2, 1, 1, []string{"n", "m"}).
				elasticGang("b", "", 1, 0, 1, []string{"o"}),
			preemptor: gangOf(5, 2, members("w", 2, 0, 1)), wantBroken: []string{"a", "b"},
		},
		"a gang that is below minCount already does not count": {
			cluster: clusterOf("gpu").node("n", 1).node("m", 1).elasticGang("a", "", 2, 0, 1, []string{"n"}, startedAt(1)).
				elasticGang("b", "", 1, 0, 1, []string{"m"}, startedAt(9)),
			preemptor: podOf(5, 1), wantVictims: []string{"a-0"},
		},
		"surplus does not count, whichever member it is": {
			cluster: clusterOf("gpu").node("n", 1).node("m", 2).elasticGang("a", "", 1, 0, 1, []string{"n", "m"}, startedAt(1)).
				pod("high", "m", 9, 1),
			preemptor: podOf(5, 1), wantVictims: []string{"a-1"},
		},
		"a group that goes whole is no half gang": {
			cluster:   clusterOf("gpu").node("n", 1).node("m", 1).group("g", 0, 1, []string{"n", "m"}),
			preemptor: podOf(5, 1), wantVictims: []string{"g"},
		},
		"the head of a gang is needed, whatever workers there are to spare": {
			cluster: clusterOf("gpu").node("n", 1).node("m", 1).node("o", 1).
				pod("a-head", "n", 0, 1, inRole("a", "head", 1, 2)).pod("a-w0", "m", 0, 1, inRole("a", "worker", 1, 2)).
				pod("a-w1", "o", 5, 1, inRole("a", "worker", 1, 2)),
			preemptor: podOf(5, 1), wantBroken: nil, wantVictims: []string{"a-w0"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := mustDecide(t, tt.cluster.queues(tt.queues...).shared(tt.preemptor), tt.preemptor, nil)
			if d.Outcome != Preempts {
				t.Fatalf("outcome %s: %s", d.Outcome, d.Message)
			}
			got := brokenNames(&d)
			if len(got) != len(tt.wantBroken) || d.Score.BrokenGangs != len(tt.wantBroken) {
				t.Errorf("%s with score %+v breaks %v, want as many as %v; victims %v", d.Message, *d.Score, got, tt.wantBroken, victimNames(&d))
			}
			if tt.wantVictims != nil {
				if diff := cmp.Diff(tt.wantVictims, slices.Sorted(slices.Values(victimNames(&d)))); diff != "" {
					t.Errorf("victims (-want +got):\n%s", diff)
				}
			}
			if !strings.Contains(d.Message, tt.wantMessage) {
				t.Errorf("message %q, want it to say %q", d.Message, tt.wantMessage)
			}
		})
	}
}

// inRole makes a unit a running member of a gang with roles.
func inRole(gang, role string, needs, minCount int32) unitOption {
	return func(u *Unit) {
		u.PodGroup, u.Running, u.Role, u.Membership = "uid-"+gang, true, &Role{Name: role, Needs: needs}, &QueueMembership{MinCount: minCount}
	}
}

func TestHeadcount(t *testing.T) {
	t.Parallel()
	head, worker := &Role{Name: "head", Needs: 1}, &Role{Name: "worker", Needs: 2}
	tests := map[string]struct {
		minCount               int
		heads, workers, others int
		wantHead, wantWorker   int
		wantOther              int
		wantWhole              bool
	}{
		"exactly":                      {3, 1, 2, 0, 0, 0, 0, true},
		"spare workers":                {3, 1, 4, 0, 0, 2, 2, true},
		"spare workers and no head":    {3, 0, 4, 0, -1, 1, 1, false},
		"roles need more than the sum": {2, 1, 2, 0, 0, 0, 1, true},
		"no roles":                     {3, 0, 0, 5, -1, -2, 2, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h Headcount
			h.Add(head, tt.heads)
			h.Add(worker, tt.workers)
			h.Add(nil, tt.others)
			got := []int{h.Spare(tt.minCount, head), h.Spare(tt.minCount, worker), h.Spare(tt.minCount, nil)}
			if want := []int{tt.wantHead, tt.wantWorker, tt.wantOther}; !slices.Equal(got, want) || h.IsWhole(tt.minCount) != tt.wantWhole {
				t.Errorf("spare %v, whole %t, want %v, %t", got, h.IsWhole(tt.minCount), want, tt.wantWhole)
			}
		})
	}
}
