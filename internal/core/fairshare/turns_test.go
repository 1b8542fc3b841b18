package fairshare

import "testing"

// TestTurnsGoByTheRequest checks which of the queues a and c is next. The resources are gpu, nic
// and cpu, with capacities of 8, 8 and 80.
func TestTurnsGoByTheRequest(t *testing.T) {
	gpus, nics := Amounts{1, 0, 1}, Amounts{0, 1, 1}
	for name, tc := range map[string]struct {
		// quota is the quota of queue a. The other fields are the usage, demand and request of
		// queues a and c.
		quota            Amounts
		hasA, hasC       Amounts
		demandA, demandC Amounts
		asksA, asksC     Amounts
		want             string
	}{
		"what is borrowed of one device delays no quota of another": {
			quota: Amounts{4, 0, 0}, hasA: Amounts{0, 7, 7}, hasC: Amounts{7, 1, 8},
			demandA: Amounts{4, 9, 13}, demandC: Amounts{9, 9, 18}, asksA: gpus, asksC: gpus, want: "a",
		},
		"nor a share of another": {
			hasA: Amounts{0, 7, 7}, hasC: Amounts{1, 1, 12},
			demandA: Amounts{4, 9, 13}, demandC: Amounts{9, 9, 18}, asksA: gpus, asksC: gpus, want: "a",
		},
		"it counts where that is asked for": {
			hasA: Amounts{0, 7, 7}, hasC: Amounts{1, 1, 2},
			demandA: Amounts{4, 9, 13}, demandC: Amounts{9, 9, 18}, asksA: nics, asksC: nics, want: "c",
		},
		"each by its own": {
			hasA: Amounts{3, 1, 4}, hasC: Amounts{2, 7, 9},
			demandA: Amounts{9, 9, 18}, demandC: Amounts{9, 9, 18}, asksA: nics, asksC: gpus, want: "a",
		},
		"quota comes before a share, which would give it back at once": {
			quota: Amounts{2, 0, 0}, hasA: Amounts{1, 0, 1}, hasC: Amounts{2, 0, 2},
			demandA: Amounts{2, 0, 2}, demandC: Amounts{9, 0, 9}, asksA: gpus, asksC: gpus, want: "a",
		},
		"but not when it is used up": {
			quota: Amounts{2, 0, 0}, hasA: Amounts{2, 0, 2}, hasC: Amounts{1, 0, 1},
			demandA: Amounts{9, 0, 9}, demandC: Amounts{9, 0, 9}, asksA: gpus, asksC: gpus, want: "c",
		},
		"nor where the rest is beyond the share": {
			quota: Amounts{2, 0, 0}, hasA: Amounts{0, 0, 70}, hasC: Amounts{1, 0, 1},
			demandA: Amounts{2, 0, 80}, demandC: Amounts{9, 0, 80}, asksA: gpus, asksC: gpus, want: "c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			quota := tc.quota
			tree, _ := NewTree(3, []Queue{{Name: "a", Weight: 1, Quota: quota}, {Name: "c", Weight: 1}})
			s := &Balance{Tree: tree, Capacity: Amounts{8, 8, 80}, Allocated: []Amounts{tc.hasA, tc.hasC}}
			s.Shares = tree.FairShares(s.Capacity, nil, []Amounts{tc.demandA, tc.demandC})
			next, ok := s.Next([]Asker{{Leaf: 0, Request: tc.asksA}, {Leaf: 1, Request: tc.asksC}}, nil)
			if got := tree.Queue(next).Name; !ok || got != tc.want {
				t.Errorf("the turn is %s's, want %s's (shares %v)", got, tc.want, s.Shares)
			}
		})
	}
}
