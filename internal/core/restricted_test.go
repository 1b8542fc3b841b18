package core

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

// reclaimCase returns a random case with a preemptor in an empty queue. The units are in three
// other queues or in no queue. Two of the queues exceed their share, slightly or by more. The third
// does not.
func reclaimCase(t *rapid.T, shape randomShape) (*Snapshot, *Preemptor, []fairshare.Queue) {
	pick := fromRapid(t)
	s, p := randomCase(pick, shape)
	s.Queues = nil
	queues := []fairshare.Queue{queue("mine"), queue("others"), queue("a", under("others")), queue("b", under("others")), queue("within")}
	names := []string{"a", "b", "within", ""}
	used, gangs := make(map[string]Amounts), make(map[string]*QueueMembership)
	for _, name := range names {
		used[name] = make(Amounts, len(s.Resources))
	}
	for u := range s.Units {
		unit, name := &s.Units[u], names[pick(len(names))]
		unit.Since = 1
		if !unit.Group && unit.PodGroup != "" {
			if gangs[unit.PodGroup] == nil {
				gangs[unit.PodGroup] = &QueueMembership{Queue: name, MinCount: unit.Membership.MinCount}
			}
			unit.Membership = gangs[unit.PodGroup]
			name = unit.Membership.Queue
		} else if name != "" {
			unit.Membership = &QueueMembership{Queue: name}
		}
		for i := range unit.Pods {
			addTo(used[name], unit.Pods[i].Request)
		}
	}
	used["others"] = make(Amounts, len(s.Resources))
	addTo(used["others"], used["a"])
	addTo(used["others"], used["b"])
	s.Queues = queuesFor(s, queues)
	part := int64(2 + pick(9))
	for i := range s.Queues.Shares {
		share := slices.Repeat(Amounts{maxAmount}, len(s.Resources))
		for r := range share {
			if name := s.Queues.Tree.Queue(int32(i)).Name; name == "others" || name == "a" || name == "b" {
				share[r] = used[name][r] * part / 10
			}
		}
		s.Queues.Shares[i] = share
	}
	p.Queue, p.Now = "mine", max(p.Now, 1000)
	return s, p, queues
}

func queuesFor(s *Snapshot, queues []fairshare.Queue) *Queues {
	tree, _ := fairshare.NewTree(len(s.Resources), queues)
	q := &Queues{Tree: tree, Shares: make([]Amounts, tree.Len())}
	if s.Queues != nil {
		q.Shares = s.Queues.Shares
	}
	return q
}

// guardCase gives some queues a quota, and other queues a min-runtime. The min-runtime has ended
// for some units of these queues.
func guardCase(t *rapid.T, s *Snapshot, queues []fairshare.Queue) {
	pick := fromRapid(t)
	first, most := pick(2), 1+pick(10)
	for u := range s.Units {
		s.Units[u].Since, s.Units[u].MinRuntime = int64(first+pick(most))*100, randomMinRuntime(pick, 600)
	}
	for i := range queues {
		if pick(2) == 0 {
			queues[i].ReclaimMinRuntime = int64(pick(4)) * 300
		}
		if pick(3) > 0 {
			queues[i].Quota = make(Amounts, len(s.Resources))
			for r := range queues[i].Quota {
				queues[i].Quota[r] = int64(pick(9))
			}
		}
	}
	s.Queues = queuesFor(s, queues)
}

// TestIgnoredLeavesAreUnprotected checks the method ignores of minRuntimes. If it returns true for
// a leaf queue, no unit of the queue may be protected, with any profile.
func TestIgnoredLeavesAreUnprotected(t *testing.T) {
	ignored, protected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s, p, queues := reclaimCase(t, podShape)
		guardCase(t, s, queues)
		r := newPolicy(newView(s, p, Arithmetic{}), protections()).rules()
		for u := range r.everyUnit {
			_, kept := minRuntimes{}.protects(r, u)
			if (minRuntimes{}).ignores(r, r.leafOf[u]) {
				ignored++
				if kept {
					t.Fatalf("%s is protected, in a leaf that is ignored", s.Units[u].Name)
				}
			} else if kept {
				protected++
			}
		}
	})
	if ignored == 0 || protected == 0 {
		t.Errorf("%d units of ignored leaves and %d protected ones", ignored, protected)
	}
}

// TestLeafByLeaf compares two kinds of decisions: the policy judges whole leaf queues, or every
// unit one by one. The results must be equal.
func TestLeafByLeaf(t *testing.T) {
	reclaimed, protected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SampledFrom([]randomShape{gangShape, bareShape, podShape, mixedShape}).Draw(t, "shape")
		shape.tolerations, shape.static = rapid.Bool().Draw(t, "tolerations"), rapid.Bool().Draw(t, "static")
		s, p, queues := reclaimCase(t, shape)
		guardCase(t, s, queues)
		got := mustDecide2(t, s, p)
		one := *s
		one.columns = newColumns(&one)
		one.columns.index = newLeafIndex(&one)
		for i := range one.columns.index.lists {
			list := &one.columns.index.lists[i]
			list.latest, list.most = Forever, slices.Repeat([]int64{Forever}, len(s.Resources))
		}
		want := mustDecide2(t, &one, p)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("leaf by leaf (-one by one +leaf by leaf):\n%s", diff)
		}
		for _, v := range got.Victims {
			if v.Rule == RuleReclaim {
				reclaimed++
			}
		}
		for _, c := range got.Protected {
			if c.Rule == RuleQuota || c.Rule == RuleReclaimMinRuntime {
				protected += c.Units
			}
		}
	})
	if reclaimed == 0 || protected == 0 {
		t.Errorf("%d units were reclaimed and %d protected by quota or min-runtime, want some of both", reclaimed, protected)
	}
}
