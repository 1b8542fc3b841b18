package scheduler

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"
)

func seatOf(t interface{ Fatal(...any) }, uid types.UID, node string, priority int32) *seat {
	p := pod(string(uid), "", "1", priority)
	p.UID = uid
	pi, err := framework.NewPodInfo(p)
	if err != nil {
		t.Fatal(err)
	}
	return &seat{pod: pi, uid: uid, node: node, rank: rank{priority: priority}}
}

// TestSeatMap compares the map with the plainest model of it, over anything that can happen in any order.
func TestSeatMap(t *testing.T) {
	t.Parallel()
	owners := []owner{{gang: true, NamespacedName: key("x")}, {NamespacedName: key("x")}, {gang: true, NamespacedName: key("y")}}
	uids := []types.UID{"a", "b", "c", "d"}
	nodes := []string{"n0", "n1", "n2"}
	type kept struct {
		owner owner
		node  string
	}
	rapid.Check(t, func(t *rapid.T) {
		var m seatMap
		model := map[types.UID]kept{}
		freed := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"replace": func(t *rapid.T) {
				o := rapid.SampledFrom(owners).Draw(t, "owner")
				next := map[types.UID]string{}
				var seats []*seat
				for _, uid := range rapid.SliceOfDistinct(rapid.SampledFrom(uids), rapid.ID).Draw(t, "pods") {
					next[uid] = rapid.SampledFrom(nodes).Draw(t, "node")
					seats = append(seats, seatOf(t, uid, next[uid], 0))
				}
				want := false
				for uid, k := range model {
					if k.owner == o {
						want = want || next[uid] != k.node
						delete(model, uid)
					}
				}
				for uid, n := range next {
					model[uid] = kept{o, n}
				}
				if want {
					freed++
				}
				if got := m.replace(o, seats); got != want {
					t.Fatalf("gave up: %v, want %v", got, want)
				}
			},
			"take": func(t *rapid.T) {
				uid := rapid.SampledFrom(uids).Draw(t, "pod")
				m.take(uid)
				delete(model, uid)
			},
			"give up": func(t *rapid.T) {
				uid := rapid.SampledFrom(uids).Draw(t, "pod")
				_, want := model[uid]
				if got := m.giveUp(uid); got != want {
					t.Fatalf("gave up: %v, want %v", got, want)
				}
				if want {
					freed++
				}
				delete(model, uid)
			},
			"": func(t *rapid.T) {
				if m.empty() != (len(model) == 0) || m.freed.Load() != freed {
					t.Fatalf("empty %v, freed %d; want %v, freed %d", m.empty(), m.freed.Load(), model, freed)
				}
				count := 0
				for _, n := range nodes {
					for _, s := range m.on(n) {
						count++
						if model[s.uid].node != n {
							t.Fatalf("%s has a seat on %s, want %v", s.uid, n, model)
						}
					}
				}
				if count != len(model) {
					t.Fatalf("%d seats, want %v", count, model)
				}
				for _, uid := range uids {
					if n, ok := m.nodeOf(uid); n != model[uid].node || ok != (n != "") {
						t.Fatalf("%s has a seat on %q, want %v", uid, n, model)
					}
				}
			},
		})
	})
}

func TestSeatMapIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var m seatMap
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			o := owner{gang: true, NamespacedName: key(fmt.Sprint(i))}
			for j := range 50 {
				uid := types.UID(fmt.Sprint(i, "-", j))
				m.replace(o, []*seat{seatOf(t, uid, "n", 0)})
				for _, s := range m.on("n") {
					_ = s.priority
				}
				m.take(uid)
			}
		})
	}
	all.Wait()
	if !m.empty() || len(m.on("n")) != 0 {
		t.Errorf("%d seats are left", len(m.on("n")))
	}
}

func TestKeepsFrom(t *testing.T) {
	tests := map[string]struct {
		promised, other rank
		want            bool
	}{
		"the same priority":            {rank{priority: 5}, rank{priority: 5}, true},
		"a higher one":                 {rank{priority: 5}, rank{priority: 6}, false},
		"a lower one":                  {rank{priority: 5}, rank{priority: 4}, true},
		"a higher one of its queue":    {rank{5, "a"}, rank{6, "a"}, false},
		"a higher one of another":      {rank{5, "a"}, rank{1000, "b"}, true},
		"a lower one of another":       {rank{5, "a"}, rank{1, "b"}, true},
		"a higher one of no queue":     {rank{5, "a"}, rank{6, ""}, false},
		"a higher one, none of itself": {rank{5, ""}, rank{6, "b"}, false},
		"critical to the system":       {rank{5, "a"}, rank{2_000_000_000, "b"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.promised.keepsFrom(tt.other); got != tt.want {
				t.Errorf("%+v keeps its room from %+v: %t", tt.promised, tt.other, got)
			}
		})
	}
}
