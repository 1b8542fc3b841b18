package core

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
)

func TestQueuePolicy(t *testing.T) {
	abc := []fairshare.Queue{queue("a"), queue("b"), queue("c")}
	tests := map[string]struct {
		cluster     *build
		queues      []fairshare.Queue
		preemptor   *Preemptor
		wantOutcome Outcome
		wantVictims []string
		wantRule    Rule
		// wantProtected is the expected number of protected units, by rule.
		wantProtected map[Rule]int
		wantMessage   string
		wantRetryAt   int64
	}{
		"reclaim takes from a queue above its share, whatever the priority": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 100, 4, inQueue("b")).pod("b2", "n", 90, 4, inQueue("b")),
			queues:  abc, preemptor: with(podOf(1, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b2"}, wantRule: RuleReclaim,
		},
		"no reclaim from a queue within its share": {
			// b uses exactly its quota of 4. The pod in the way is c1, which is in no queue.
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 4, inQueue("b")).pod("c1", "n", 50, 4),
			queues:  []fairshare.Queue{queue("a"), queue("b", quota(4))}, preemptor: with(podOf(10, 1), ofQueue("a")),
			wantOutcome: Infeasible, wantProtected: map[Rule]int{RuleNotLowerPriority: 1, RuleOverShare: 1},
		},
		"no reclaim beyond one's own share, whatever the priority": {
			cluster: clusterOf("gpu").node("n", 8).pod("a1", "n", 100, 4, inQueue("a")).pod("b1", "n", 1, 4, inQueue("b")),
			queues:  abc, preemptor: with(podOf(100, 1), ofQueue("a")),
			wantOutcome: Infeasible, wantProtected: map[Rule]int{RuleNotLowerPriority: 1, RuleOverShare: 1},
			wantMessage: "1 unit of another queue is out of reach (PreemptorOverFairShare)",
		},
		"inside a queue it goes by priority": {
			cluster: clusterOf("gpu").node("n", 8).pod("a1", "n", 5, 4, inQueue("a")).pod("b1", "n", 1, 4, inQueue("b")),
			queues:  abc, preemptor: with(podOf(10, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"a1"}, wantRule: RuleLowerPriority,
		},
		"inside a queue, what a gang can do without rather than what has started later": {
			cluster: clusterOf("gpu").node("n", 8).node("m", 8).
				pod("needed", "n", 5, 4, inQueue("a"), startedAt(6)).pod("b1", "n", 1, 4, inQueue("b")).
				pod("surplus", "m", 5, 4, inQueue("a"), startedAt(5), isSurplus(true)).pod("b2", "m", 1, 4, inQueue("b")),
			queues: abc[:2], preemptor: with(podOf(10, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"surplus"}, wantRule: RuleLowerPriority,
		},
		"no queue is taken below its quota": {
			cluster: clusterOf("gpu").node("n", 8).group("b1", 0, 4, []string{"n", "n"}, inQueue("b")),
			queues:  []fairshare.Queue{queue("a", quota(4)), queue("b", quota(4))}, preemptor: with(podOf(0, 4), ofQueue("a")),
			wantOutcome: Infeasible, wantProtected: map[Rule]int{RuleQuota: 1},
		},
		"but quotas that claim more than there is are cut down": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 4, inQueue("b")).pod("b2", "n", 0, 2, inQueue("b")).pod("b3", "n", 9, 2, inQueue("b")),
			queues:  []fairshare.Queue{queue("a", quota(4)), queue("b", quota(12))}, preemptor: with(podOf(0, 2), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b2"}, wantRule: RuleReclaim,
		},
		"not by one either": {
			// b uses 5, and its quota is 4. So no pod with a request of 2 may be evicted.
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 2, inQueue("b")).pod("b2", "n", 0, 2, inQueue("b")).
				pod("b3", "n", 90, 1, inQueue("b")).pod("x", "n", 100, 2),
			queues: []fairshare.Queue{queue("a", quota(2)), queue("b", quota(4))}, preemptor: with(podOf(0, 2), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b3"}, wantRule: RuleReclaim,
		},
		"what was lent comes back": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 9, 4, inQueue("b")).pod("b2", "n", 9, 4, inQueue("b"), startedAt(5)),
			queues:  []fairshare.Queue{queue("a", quota(4)), queue("b", quota(4))}, preemptor: with(podOf(0, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b1"}, wantRule: RuleReclaim,
		},
		"what was lent comes back, though little of something else was taken with it": {
			// b uses much less than its quota of CPUs. So its quota of CPUs seems to protect all
			// its pods.
			cluster: clusterOf("gpu", "cpu").node("n", 8, 64).podOf("b1", "n", 9, []int64{4, 1}, inQueue("b")).podOf("b2", "n", 9, []int64{4, 1}, inQueue("b"), startedAt(5)),
			queues:  []fairshare.Queue{queue("a", quota(4, 32)), queue("b", quota(4, 32))}, preemptor: with(podOf(0, 4, 1), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b1"}, wantRule: RuleReclaim,
		},
		"nor does the work with GPUs go for CPUs that others of its queue have borrowed": {
			// b uses 61 CPUs, and its quota is 32. One of the CPUs is b1's. b uses exactly its
			// quota of GPUs.
			cluster: clusterOf("gpu", "cpu").node("n", 8, 61).podOf("b1", "n", 0, []int64{4, 1}, inQueue("b")).podOf("b2", "n", 9, []int64{0, 28}, inQueue("b")).podOf("b3", "n", 9, []int64{0, 32}, inQueue("b")),
			queues:  []fairshare.Queue{queue("a", quota(4, 28)), queue("b", quota(4, 32))}, preemptor: with(podOf(0, 4, 1), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b2"}, wantRule: RuleReclaim,
		},
		"what is above the quota of one resource goes down to that, and no further": {
			// b can spare only the CPUs of b2.
			cluster: clusterOf("gpu", "cpu").node("n", 8, 16).podOf("b1", "n", 9, []int64{4, 8}, inQueue("b")).podOf("b2", "n", 9, []int64{0, 4}, inQueue("b")),
			queues:  []fairshare.Queue{queue("a", quota(0, 8)), queue("b", quota(4, 8))}, preemptor: with(podOf(0, 0, 8), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b2"}, wantRule: RuleReclaim,
		},
		"nor for GPUs, where its work with GPUs has more CPUs than its quota names": {
			// b uses its 4 GPUs, and 32 CPUs with a quota of 8. c uses the rest and is protected
			// now.
			cluster: clusterOf("gpu", "cpu").node("n", 4, 64).node("m", 8, 64).podOf("b1", "n", 0, []int64{2, 16}, inQueue("b")).podOf("b2", "n", 0, []int64{2, 16}, inQueue("b")).
				podOf("c1", "m", 0, []int64{8, 8}, inQueue("c"), since(1)),
			queues:    []fairshare.Queue{queue("a", quota(4, 32)), queue("b", quota(4, 8)), queue("c", func(q *fairshare.Queue) { q.ReclaimMinRuntime = 1000 })},
			preemptor: with(podOf(0, 2, 4), ofQueue("a"), at(2)), wantOutcome: Infeasible,
			wantProtected: map[Rule]int{RuleQuota: 2, RuleReclaimMinRuntime: 1}, wantRetryAt: 1002,
		},
		"nor for what another below the same queue has": {
			// org uses 8 GPUs because of a2, and its quota is 6. a1 uses its quota of GPUs, but
			// more CPUs than its quota.
			cluster: clusterOf("gpu", "cpu").node("n", 4, 64).node("m", 8, 64).podOf("b1", "n", 0, []int64{1, 4}, inQueue("a1")).podOf("b2", "n", 0, []int64{1, 4}, inQueue("a1")).
				podOf("b3", "m", 0, []int64{6, 1}, inQueue("a2")).podOf("x", "n", 100, []int64{2, 0}).podOf("y", "m", 100, []int64{2, 0}),
			queues: []fairshare.Queue{
				queue("a", quota(4)), queue("org", quota(6, 64)), queue("a1", under("org"), quota(2, 4)), queue("a2", under("org"), quota(3)),
			},
			preemptor: with(podOf(0, 1, 0), ofQueue("a")), wantOutcome: Infeasible,
			wantProtected: map[Rule]int{RuleNotLowerPriority: 2, RuleQuota: 3},
		},
		"of pods there may be fewer, where CPUs are named": {
			// b uses its quota of CPUs, and more pods than its quota. c uses the rest and is
			// protected now.
			cluster: clusterOf("cpu", "pods").node("n", 8, 10).node("m", 8, 10).podOf("b1", "n", 0, []int64{4, 1}, inQueue("b")).podOf("b2", "n", 0, []int64{4, 1}, inQueue("b")).
				podOf("c1", "m", 0, []int64{8, 1}, inQueue("c"), since(1)),
			queues:    []fairshare.Queue{queue("a", quota(4, 2)), queue("b", quota(8, 1)), queue("c", func(q *fairshare.Queue) { q.ReclaimMinRuntime = 1000 })},
			preemptor: with(podOf(0, 4, 1), ofQueue("a"), at(2)), wantOutcome: Infeasible,
			wantProtected: map[Rule]int{RuleQuota: 2, RuleReclaimMinRuntime: 1}, wantRetryAt: 1002,
		},
		"GPUs that are not enough for all quotas still hold": {
			// The fair shares of the 2 GPUs are 1 for a, 1 for b (by name) and 0 for c.
			cluster: clusterOf("gpu", "cpu").node("n", 2, 64).podOf("a1", "n", 0, []int64{1, 8}, inQueue("a")).podOf("c1", "n", 0, []int64{1, 8}, inQueue("c")),
			queues:  []fairshare.Queue{queue("a", quota(1, 8)), queue("b", quota(1, 8)), queue("c", quota(1, 8))}, preemptor: with(podOf(0, 1, 8), ofQueue("b")),
			wantOutcome: Preempts, wantVictims: []string{"c1"}, wantRule: RuleReclaim,
		},
		"GPUs that no node lists do not": {
			cluster: clusterOf("gpu", "cpu", "memory").node("n", 0, 16, 16).podOf("b1", "n", 0, []int64{1, 8, 2}, inQueue("b")).podOf("b2", "n", 9, []int64{0, 0, 14}, inQueue("b")),
			queues:  []fairshare.Queue{queue("a"), queue("b", quota(4, 8))}, preemptor: with(podOf(0, 0, 1, 2), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b2"}, wantRule: RuleReclaim,
		},
		"by what it is taken for, whatever holds the unit": {
			// b uses one CPU more than its share of 6. Without b1, it would use 6 GPUs, and 4 CPUs
			// with a quota of 5.
			cluster: clusterOf("gpu", "cpu").node("n", 8, 8).node("m", 8, 8).
				podOf("b1", "n", 0, []int64{6, 3}, inQueue("b")).podOf("b2", "n", 0, []int64{1, 0}, inQueue("b")).podOf("x1", "n", 100, []int64{0, 1}).
				podOf("b3", "m", 0, []int64{5, 3}, inQueue("b")).podOf("b4", "m", 0, []int64{0, 1}, inQueue("b")).podOf("x2", "m", 100, []int64{0, 4}),
			queues:      []fairshare.Queue{queue("a", func(q *fairshare.Queue) { q.Priority = 1 }), queue("b", quota(6, 5))},
			preemptor:   with(podOf(0, 1, 5), ofQueue("a")),
			wantOutcome: Infeasible, wantProtected: map[Rule]int{RuleNotLowerPriority: 2, RuleQuota: 2},
		},
		"its own work goes for no less of what holds the preemptor": {
			// a uses 6 GPUs and 2 CPUs. After the preemption, it would use 5 GPUs and 3 CPUs. The
			// additional CPU would be reclaimed from b, but b is within its share.
			cluster: clusterOf("gpu", "cpu").node("n", 8, 8).podOf("a1", "n", 0, []int64{6, 2}, inQueue("a")).podOf("b1", "n", 0, []int64{2, 6}, inQueue("b")),
			queues:  []fairshare.Queue{queue("a", quota(6, 6)), queue("b")}, preemptor: with(podOf(2, 5, 3), ofQueue("a")),
			wantOutcome: Infeasible,
		},
		"a quota of GPUs carries the CPUs that go with them": {
			// Next to b, a has no share of unclaimed capacity because its weight is 0. b uses all
			// CPUs and is within its share of CPUs.
			cluster: clusterOf("nvidia.com/gpu", "cpu").node("n", 8, 16).podOf("b1", "n", 9, []int64{4, 8}, inQueue("b")).podOf("b2", "n", 9, []int64{4, 8}, inQueue("b"), startedAt(5)),
			queues: []fairshare.Queue{
				queue("a", quota(4), func(q *fairshare.Queue) { q.Weight = 0 }), queue("b"),
			}, preemptor: with(podOf(0, 4, 8), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b1"}, wantRule: RuleReclaim,
		},
		"and not more of them than are its part": {
			cluster: clusterOf("nvidia.com/gpu", "cpu").node("n", 8, 16).podOf("b1", "n", 9, []int64{4, 8}, inQueue("b")).podOf("b2", "n", 9, []int64{4, 8}, inQueue("b"), startedAt(5)),
			queues: []fairshare.Queue{
				queue("a", quota(4), func(q *fairshare.Queue) { q.Weight = 0 }), queue("b"),
			}, preemptor: with(podOf(0, 4, 9), ofQueue("a")),
			wantOutcome: Infeasible, wantProtected: map[Rule]int{RuleOverShare: 2},
		},
		"of several queues, the one furthest over its share": {
			cluster: clusterOf("gpu").node("n", 12).node("m", 0).
				pod("b1", "n", 0, 5, inQueue("b")).pod("c1", "n", 50, 1, inQueue("c")).
				pod("c2", "n", 50, 2, inQueue("c")).pod("c3", "n", 50, 4, inQueue("c")),
			queues: abc, preemptor: with(podOf(0, 1), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"c3"}, wantRule: RuleReclaim,
		},
		"a queue is taken from only while it is above its share": {
			// b uses 6, and its share is 4. So one of its pods may be evicted, but the preemptor
			// needs the room of two.
			cluster: clusterOf("gpu").node("n", 6).node("m", 2).pod("b1", "n", 0, 2, inQueue("b")).
				pod("b2", "n", 0, 2, inQueue("b")).pod("b3", "n", 0, 2, inQueue("b")),
			queues: []fairshare.Queue{queue("a"), queue("b")}, preemptor: with(podOf(0, 4), ofQueue("a")),
			wantOutcome: Infeasible,
		},
		"nor is a gang an exception": {
			cluster: clusterOf("gpu").node("n", 6).node("m", 2).pod("b1", "n", 0, 2, inQueue("b")).
				pod("b2", "n", 0, 2, inQueue("b")).pod("b3", "n", 0, 2, inQueue("b")),
			queues: []fairshare.Queue{queue("a"), queue("b")}, preemptor: with(gangOf(0, 1, members("w", 1, 0, 4)), ofQueue("a")),
			wantOutcome: Infeasible, wantMessage: "there could be room, but it takes more than queue b has beyond its fair share",
		},
		"fragments: the units that make room together are found": {
			// Any two of b's units may be evicted one after the other. Only the two units on m give
			// the preemptor enough room.
			cluster: clusterOf("gpu").node("n", 2).node("m", 2).node("o", 2).
				pod("b0", "n", 0, 1, inQueue("b"), startedAt(9)).pod("b1", "m", 0, 1, inQueue("b"), startedAt(1)).
				pod("b2", "m", 0, 1, inQueue("b"), startedAt(2)).pod("b3", "o", 0, 1, inQueue("b"), startedAt(8)).
				pod("x", "n", 100, 1).pod("y", "o", 100, 1),
			queues: []fairshare.Queue{queue("a", quota(2)), queue("b", quota(2))}, preemptor: with(podOf(0, 2), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b1", "b2"}, wantRule: RuleReclaim,
		},
		"fragments: for a gang as well": {
			cluster: clusterOf("gpu").node("n", 2).node("m", 2).node("o", 2).
				pod("b0", "n", 0, 1, inQueue("b"), startedAt(9)).pod("b1", "m", 0, 1, inQueue("b"), startedAt(1)).
				pod("b2", "m", 0, 1, inQueue("b"), startedAt(2)).pod("b3", "o", 0, 1, inQueue("b"), startedAt(8)).
				pod("x", "n", 100, 1).pod("y", "o", 100, 1),
			queues: []fairshare.Queue{queue("a", quota(2)), queue("b", quota(2))}, preemptor: with(gangOf(0, 1, members("w", 1, 0, 2)), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b1", "b2"}, wantRule: RuleReclaim,
		},
		"work of no queue goes by priority, and so does its own": {
			cluster: clusterOf("gpu").node("n", 8).pod("x", "n", 3, 4).pod("b1", "n", 1, 4, inQueue("b")),
			queues:  abc, preemptor: podOf(2, 4),
			wantOutcome: Preempts, wantVictims: []string{"b1"}, wantRule: RuleLowerPriority,
		},
		"work of a queue that is gone counts as work of none": {
			cluster: clusterOf("gpu").node("n", 8).pod("x", "n", 3, 4, inQueue("gone")).pod("b1", "n", 5, 4, inQueue("b")),
			queues:  abc, preemptor: with(podOf(4, 4), ofQueue("b")),
			wantOutcome: Preempts, wantVictims: []string{"x"}, wantRule: RuleLowerPriority,
		},
		"a preemptor whose queue is gone takes nothing": {
			cluster: clusterOf("gpu").node("n", 8).pod("x", "n", 3, 4).pod("b1", "n", 1, 4, inQueue("b")),
			queues:  abc, preemptor: with(podOf(100, 4), ofQueue("gone")), wantOutcome: Infeasible,
		},
		"system-critical work goes by priority": {
			cluster: clusterOf("gpu").node("n", 8).pod("a1", "n", 3, 4, inQueue("a")).pod("b1", "n", 2, 4, inQueue("b")),
			queues:  abc, preemptor: with(podOf(systemCritical, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b1"}, wantRule: RuleLowerPriority,
		},
		"a gang loses its surplus before others lose anything": {
			cluster: clusterOf("gpu").node("n", 8).elasticGang("b1", "b", 2, 50, 2, []string{"n", "n", "n"}).
				pod("b2", "n", 1, 2, inQueue("b")),
			queues: abc, preemptor: with(podOf(0, 2), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b1-2"}, wantRule: RuleReclaim,
		},
		"reclaim waits for the end of the min-runtime": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 4, inQueue("b"), since(10*minute)).pod("b2", "n", 0, 4, inQueue("b"), since(12*minute)),
			queues:  []fairshare.Queue{queue("a"), queue("b", reclaimAfter(5*minute))}, preemptor: with(podOf(0, 4), ofQueue("a"), at(15*minute)),
			wantOutcome: Infeasible, wantRetryAt: 15*minute + 1, wantProtected: map[Rule]int{RuleReclaimMinRuntime: 2},
			wantMessage: "when ns/b1 (ReclaimMinRuntime of queue b) is protected no longer",
		},
		"and goes ahead one moment later": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 4, inQueue("b"), since(10*minute)).pod("b2", "n", 0, 4, inQueue("b"), since(12*minute)),
			queues:  []fairshare.Queue{queue("a"), queue("b", reclaimAfter(5*minute))}, preemptor: with(podOf(0, 4), ofQueue("a"), at(15*minute+1)),
			wantOutcome: Preempts, wantVictims: []string{"b1"}, wantRule: RuleReclaim,
		},
		"a clock that has not begun protects": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 8, inQueue("b")),
			queues:  []fairshare.Queue{queue("a"), queue("b", reclaimAfter(minute))}, preemptor: with(podOf(0, 4), ofQueue("a"), at(100*minute)),
			wantOutcome: Infeasible, wantRetryAt: 101*minute + 1, wantProtected: map[Rule]int{RuleReclaimMinRuntime: 1},
		},
		"inside the window a gang loses its surplus": {
			cluster: clusterOf("gpu").node("n", 8).elasticGang("b1", "b", 3, 0, 2, []string{"n", "n", "n", "n"}, since(10*minute)),
			queues:  []fairshare.Queue{queue("a"), queue("b", reclaimAfter(5*minute))}, preemptor: with(podOf(0, 2), ofQueue("a"), at(11*minute)),
			wantOutcome: Preempts, wantVictims: []string{"b1-3"}, wantRule: RuleReclaim,
		},
		"inside the window a gang loses no more than that": {
			cluster: clusterOf("gpu").node("n", 8).elasticGang("b1", "b", 3, 0, 2, []string{"n", "n", "n", "n"}, since(10*minute)),
			queues:  []fairshare.Queue{queue("a"), queue("b", reclaimAfter(5*minute))}, preemptor: with(podOf(0, 4), ofQueue("a"), at(11*minute)),
			wantOutcome: Infeasible, wantRetryAt: 15*minute + 1,
		},
		"a large unit goes where small ones on both sides of it would not leave enough": {
			cluster: clusterOf("gpu").node("n", 6).node("m", 2).
				pod("b1", "n", 0, 1, inQueue("b"), startedAt(1)).pod("b2", "n", 0, 4, inQueue("b"), startedAt(2)).
				pod("b3", "n", 0, 1, inQueue("b"), startedAt(3)).pod("b4", "m", 0, 2, inQueue("b")),
			queues: []fairshare.Queue{queue("a", quota(4)), queue("b", quota(4))}, preemptor: with(podOf(0, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b2"}, wantRule: RuleReclaim,
		},
		"one large unit goes rather than four small ones": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 1, inQueue("b"), startedAt(5)).pod("b2", "n", 0, 1, inQueue("b"), startedAt(4)).
				pod("b3", "n", 0, 4, inQueue("b"), startedAt(3)).pod("b4", "n", 0, 1, inQueue("b"), startedAt(2)).pod("b5", "n", 0, 1, inQueue("b"), startedAt(1)),
			queues: []fairshare.Queue{queue("a", quota(4)), queue("b", quota(4))}, preemptor: with(podOf(0, 4), ofQueue("a")),
			wantOutcome: Preempts, wantVictims: []string{"b3"}, wantRule: RuleReclaim,
		},
		"any member counts as surplus, as long as enough stay": {
			cluster: clusterOf("gpu").node("n", 2).node("m", 2).
				elasticGang("b1", "b", 1, 0, 2, []string{"n", "m"}, since(10*minute)).node("x", 0),
			queues: []fairshare.Queue{queue("a"), queue("b", reclaimAfter(5*minute))}, preemptor: with(podOf(0, 2), ofQueue("a"), at(11*minute)),
			wantOutcome: Preempts, wantVictims: []string{"b1-1"}, wantRule: RuleReclaim,
		},
		"inside the window a role with nothing to spare loses nothing, whatever others have to spare": {
			cluster: clusterOf("gpu").node("h", 4).node("g", 4).node("c", 2).ray(since(10 * minute)),
			queues:  []fairshare.Queue{queue("a"), queue("b", reclaimAfter(5*minute))}, preemptor: with(podOf(0, 4), ofQueue("a"), at(11*minute)),
			wantOutcome: Infeasible, wantRetryAt: 15*minute + 1, wantProtected: map[Rule]int{RuleReclaimMinRuntime: 2},
		},
		"inside the window a role loses what it has to spare": {
			cluster: clusterOf("gpu").node("h", 4).node("g", 4).node("c", 2).ray(since(10 * minute)),
			queues:  []fairshare.Queue{queue("a"), queue("b", reclaimAfter(5*minute))}, preemptor: with(podOf(0, 1), ofQueue("a"), at(11*minute)),
			wantOutcome: Preempts, wantVictims: []string{"cpu-1"}, wantRule: RuleReclaim,
		},
		"by priority inside the window as well": {
			cluster:     clusterOf("gpu").node("h", 4).node("g", 4).node("c", 2).ray(since(10 * minute)),
			preemptor:   with(podOf(5, 4), at(11*minute), func(p *Preemptor) { p.MinRuntime.Preempt = 5 * minute }),
			wantOutcome: Infeasible, wantRetryAt: 15*minute + 1, wantProtected: map[Rule]int{RulePreemptMinRuntime: 2},
		},
		"the default protects work of no queue as well": {
			cluster: clusterOf("gpu").node("n", 8).pod("x", "n", 0, 8, since(10*minute)),
			queues:  nil, preemptor: with(podOf(5, 4), at(11*minute), func(p *Preemptor) { p.MinRuntime.Preempt = 2 * minute }),
			wantOutcome: Infeasible, wantRetryAt: 12*minute + 1, wantProtected: map[Rule]int{RulePreemptMinRuntime: 1},
		},
		"by the victim's profile, not the preemptor's": {
			cluster: clusterOf("gpu").node("n", 8).pod("x", "n", 0, 8, since(10*minute), ofProfile(MinRuntime{Preempt: 3 * minute})),
			queues:  nil, preemptor: with(podOf(5, 4), at(11*minute), func(p *Preemptor) { p.MinRuntime.Preempt = 20 * minute }),
			wantOutcome: Infeasible, wantRetryAt: 13*minute + 1, wantProtected: map[Rule]int{RulePreemptMinRuntime: 1},
		},
		"a patient preemptor takes the work of a profile without a default": {
			cluster: clusterOf("gpu").node("n", 8).pod("x", "n", 0, 8, since(10*minute), ofProfile(MinRuntime{})),
			queues:  nil, preemptor: with(podOf(5, 4), at(11*minute), func(p *Preemptor) { p.MinRuntime.Preempt = 20 * minute }),
			wantOutcome: Preempts, wantVictims: []string{"x"}, wantRule: RuleLowerPriority,
		},
		"of two profiles' victims, the one whose default has passed goes": {
			cluster: clusterOf("gpu").node("n", 8).
				pod("kept", "n", 0, 4, since(10*minute), ofProfile(MinRuntime{Preempt: 3 * minute})).
				pod("x", "n", 1, 4, since(10*minute), ofProfile(MinRuntime{Preempt: minute / 2})),
			queues: nil, preemptor: with(podOf(5, 4), at(11*minute)),
			wantOutcome: Preempts, wantVictims: []string{"x"}, wantRule: RuleLowerPriority,
		},
		"reclaim by the default of the victim's profile": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 8, inQueue("b"), since(10*minute), ofProfile(MinRuntime{Preempt: 9 * minute, Reclaim: 2 * minute})),
			queues:  []fairshare.Queue{queue("a"), queue("b")}, preemptor: with(podOf(0, 4), ofQueue("a"), at(11*minute)),
			wantOutcome: Infeasible, wantRetryAt: 12*minute + 1, wantProtected: map[Rule]int{RuleReclaimMinRuntime: 1},
		},
		"from where on the way up, by the victim's profile": {
			cluster: clusterOf("gpu").node("n", 8).pod("b1", "n", 0, 8, inQueue("b"), since(10*minute), ofProfile(MinRuntime{Resolve: ResolveQueue})),
			queues:  []fairshare.Queue{queue("a"), queue("top"), queue("b", under("top"), reclaimAfter(2*minute))}, preemptor: with(podOf(0, 4), ofQueue("a"), at(11*minute)),
			wantOutcome: Infeasible, wantRetryAt: 12*minute + 1, wantProtected: map[Rule]int{RuleReclaimMinRuntime: 1},
		},
		"nothing comes of the end of a window where a limit has no room for the preemptor": {
			cluster: clusterOf("gpu").node("n", 8).pod("beside", "n", 0, 4, since(10*minute)).pod("a1", "n", 5, 2, inQueue("a")),
			queues:  []fairshare.Queue{queue("a", limit(2))},
			preemptor: with(podOf(5, 2), ofQueue("a"), at(11*minute), func(p *Preemptor) {
				p.MinRuntime.Preempt = 20 * minute
			}),
			wantOutcome: Infeasible,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := mustDecide(t, tt.cluster.queues(tt.queues...).shared(tt.preemptor), tt.preemptor, nil)
			if d.Outcome != tt.wantOutcome {
				t.Fatalf("outcome %s (%s), want %s; victims %v", d.Outcome, d.Message, tt.wantOutcome, victimNames(&d))
			}
			if diff := cmp.Diff(tt.wantVictims, victimNames(&d)); diff != "" {
				t.Errorf("victims (-want +got):\n%s", diff)
			}
			for i := range d.Victims {
				if d.Victims[i].Rule != tt.wantRule {
					t.Errorf("victim %s by rule %s, want %s", d.Victims[i].Name, d.Victims[i].Rule, tt.wantRule)
				}
			}
			protected := make(map[Rule]int)
			for _, r := range d.Protected {
				protected[r.Rule] = r.Units
			}
			for rule, want := range tt.wantProtected {
				if protected[rule] != want {
					t.Errorf("%s protects %d, want %d (%v)", rule, protected[rule], want, protected)
				}
			}
			if !strings.Contains(d.Message, tt.wantMessage) {
				t.Errorf("message %q, want it to say %q", d.Message, tt.wantMessage)
			}
			if d.RetryAt != tt.wantRetryAt {
				t.Errorf("retry at %d, want %d", d.RetryAt, tt.wantRetryAt)
			}
		})
	}
}

// TestFullQueueOfOneThatTakesNothing checks the message if nodes have room but the preemptor's
// queue is at its limit.
func TestFullQueueOfOneThatTakesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		preemptor *Preemptor
		want      string
	}{
		"with room on a node": {
			preemptor: podOf(10, 4),
			want:      "there could be room, but it takes queue team beyond its limit; preemptionPolicy Never forbids taking any",
		},
		"without": {
			preemptor: podOf(10, 8),
			want:      "needs 8 gpu on 1 node; no node has them as things are; preemptionPolicy Never forbids taking any (of 1 node: 1 short of gpu)",
		},
		"with room for one of two members": {
			preemptor: gangOf(10, 2, members("g", 2, 0, 4)),
			want:      "needs 4 gpu for each of 2 members; 1 have room as things are; preemptionPolicy Never forbids taking any",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := clusterOf("gpu").node("n", 8).pod("a1", "n", 5, 2, inQueue("a")).
				queues(queue("team", limit(4)), queue("a", under("team"), limit(100)))
			p := with(c.preemptor, ofQueue("a"), func(p *Preemptor) { p.Never = true })
			if d := mustDecide(t, cluster.shared(p), p, nil); d.Outcome != Infeasible || d.Message != c.want {
				t.Errorf("It is %s: %q, want %q", d.Outcome, d.Message, c.want)
			}
		})
	}
}

// TestMinRuntimeOfTheDocument has the examples of the min-runtime document. The queues have the
// same names as in the document.
func TestMinRuntimeOfTheDocument(t *testing.T) {
	const second = int64(1e9)
	reclaim := []fairshare.Queue{
		queue("A"), queue("B", under("A"), reclaimAfter(600*second)), queue("C", under("B")),
		queue("D", under("B"), reclaimAfter(60*second)), queue("leaf1", under("C"), reclaimAfter(0)),
		queue("leaf2", under("C"), reclaimAfter(180*second)), queue("leaf3", under("D")), queue("E", under("A")), queue("Z"),
	}
	preempt := []fairshare.Queue{
		queue("A"), queue("B", under("A"), preemptAfter(600*second)), queue("C", under("B")),
		queue("leaf1", under("C"), preemptAfter(300*second)), queue("leaf2", under("C")), queue("leaf3", under("A")),
	}
	tests := map[string]struct {
		queues            []fairshare.Queue
		preemptor, victim string
		resolve           ResolveMethod
		defaults          MinRuntime
		want              int64
		wantQueue         string
	}{
		"reclaim: leaf1 from leaf3 goes by D": {queues: reclaim, preemptor: "leaf1", victim: "leaf3", want: 60 * second, wantQueue: "D"},
		"reclaim: leaf1 from leaf2 goes by leaf2": {
			queues: reclaim, preemptor: "leaf1", victim: "leaf2", want: 180 * second, wantQueue: "leaf2",
		},
		"reclaim: leaf3 from leaf1 goes by C, which has it from B": {
			queues: reclaim, preemptor: "leaf3", victim: "leaf1", want: 600 * second, wantQueue: "B",
		},
		"reclaim: leaf2 from leaf1 is set to nothing": {queues: reclaim, preemptor: "leaf2", victim: "leaf1", want: 0, wantQueue: "leaf1"},
		"reclaim: always from the victim's leaf": {
			queues: reclaim, preemptor: "leaf3", victim: "leaf1", resolve: ResolveQueue, want: 0, wantQueue: "leaf1",
		},
		"reclaim: no common ancestor goes by the victim's top-level queue": {
			queues: reclaim, preemptor: "Z", victim: "leaf1", defaults: MinRuntime{Reclaim: 7 * second}, want: 7 * second,
		},
		"preempt: leaf1 has its own":   {queues: preempt, preemptor: "leaf1", victim: "leaf1", want: 300 * second, wantQueue: "leaf1"},
		"preempt: leaf2 has it from B": {queues: preempt, preemptor: "leaf2", victim: "leaf2", want: 600 * second, wantQueue: "B"},
		"preempt: nothing set: the default": {
			queues: preempt, preemptor: "leaf3", victim: "leaf3", defaults: MinRuntime{Preempt: 30 * second}, want: 30 * second,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			const start = 1000 * second
			b := clusterOf("gpu").node("n", 8).pod("v", "n", 0, 8, inQueue(tt.victim), since(start)).queues(tt.queues...)
			judgeAt := func(now int64) Verdict {
				p := with(podOf(1, 4), ofQueue(tt.preemptor), at(now))
				p.MinRuntime = tt.defaults
				p.MinRuntime.Resolve = tt.resolve
				s := b.shared(p)
				return judge(newPolicy(newView(s, p, Arithmetic{}), protections()), 0)
			}
			if v := judgeAt(start + tt.want + 1); !v.Eligible {
				t.Errorf("protected after %ds: %+v", tt.want/second, v)
			}
			if tt.want == 0 {
				return
			}
			want := Verdict{Rule: RuleReclaimMinRuntime, Until: start + tt.want, Queue: tt.wantQueue}
			if tt.preemptor == tt.victim {
				want.Rule = RulePreemptMinRuntime
			}
			if diff := cmp.Diff(want, judgeAt(start+tt.want)); diff != "" {
				t.Errorf("verdict at the end (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneQueueIsLikeNone puts all work into one queue. Then only priority matters, so the decisions
// must equal the decisions without queues.
func TestOneQueueIsLikeNone(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SampledFrom([]randomShape{gangShape, bareShape, podShape}).Draw(t, "shape")
		shape.tolerations, shape.static = true, true
		s, p := randomCase(fromRapid(t), shape)
		want := mustDecide2(t, s, p)
		tree, _ := fairshare.NewTree(len(s.Resources), []fairshare.Queue{queue("all")})
		s.Queues = &Queues{Tree: tree, Shares: []Amounts{slices.Repeat(Amounts{maxAmount}, len(s.Resources))}}
		for u := range s.Units {
			s.Units[u].Membership = &QueueMembership{Queue: "all"}
		}
		p.Queue = "all"
		got := mustDecide2(t, s, p)
		for i := range got.Victims {
			got.Victims[i].Queue = ""
		}
		got.Preemptor.Queue = ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("with one queue (-without +with):\n%s", diff)
		}
		if want.Outcome == Preempts {
			compared++
		}
	})
	if compared == 0 {
		t.Error("nothing was preempted")
	}
}

func mustDecide2(t *rapid.T, s *Snapshot, p *Preemptor) Decision {
	d, err := Decide(s, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDistances(t *testing.T) {
	last := int32(-1)
	for _, ratio := range []float64{math.Inf(1), 100, 4, 2, 1.5, 1.2, 1} {
		d := distanceOf(ratio)
		if d <= last || d >= distances {
			t.Errorf("distance %d of ratio %v after %d", d, ratio, last)
		}
		last = d
	}
}
