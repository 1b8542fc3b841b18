package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// reservedFor returns a reservation on node-0 for a pod that requests CPUs.
func reservedFor(t interface{ Fatal(...any) }, name string, cpu int, standing workload.Standing) *engine.Reservation {
	pi, err := framework.NewPodInfo(pod(name, "", fmt.Sprint(cpu), standing.Priority))
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Reservation{Pod: pi, UID: string(pi.Pod.UID), Node: "node-0", Standing: standing}
}

// holding returns a node with eight CPUs and one pod for each of the given CPU requests.
func holding(cpus ...int) *framework.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(node("node-0", "8"))
	for i, cpu := range cpus {
		info.AddPod(on(pod(fmt.Sprintf("stays-%d", i), "", fmt.Sprint(cpu), 0), "node-0"))
	}
	return info
}

func counting(r *engine.Reservation) *seeker {
	return seekerOf(cluster.PodInfoIn(r), r.Standing, countsAll{})
}

func uidsOf(rs []*engine.Reservation) (out []types.UID) {
	for _, r := range rs {
		out = append(out, types.UID(r.UID))
	}
	return out
}

func TestCrowdedOut(t *testing.T) {
	t.Parallel()
	at := func(priority int32, queue string) workload.Standing {
		return workload.Standing{Priority: priority, Queue: queue}
	}
	tests := map[string]struct {
		stays    []int
		reserved []*engine.Reservation
		unasked  bool
		want     []types.UID
	}{
		"it fits":                             {stays: []int{4}, reserved: []*engine.Reservation{reservedFor(t, "a", 4, at(5, ""))}},
		"too little is left":                  {stays: []int{5}, reserved: []*engine.Reservation{reservedFor(t, "a", 4, at(5, ""))}, want: []types.UID{"uid-a"}},
		"room does not matter to its profile": {stays: []int{5}, reserved: []*engine.Reservation{reservedFor(t, "a", 4, at(5, ""))}, unasked: true},
		"the lower one gives way": {
			stays:    []int{2},
			reserved: []*engine.Reservation{reservedFor(t, "low", 4, at(5, "")), reservedFor(t, "high", 4, at(9, ""))},
			want:     []types.UID{"uid-low"},
		},
		"of equals, the later one does": {
			stays:    []int{2},
			reserved: []*engine.Reservation{reservedFor(t, "a", 4, at(5, "")), reservedFor(t, "b", 4, at(5, ""))},
			want:     []types.UID{"uid-b"},
		},
		"a lower one that fits beside stays where a higher one does not": {
			stays:    []int{6},
			reserved: []*engine.Reservation{reservedFor(t, "low", 2, at(5, "")), reservedFor(t, "high", 4, at(9, ""))},
			want:     []types.UID{"uid-high"},
		},
		"of two queues, the lower priority does": {
			stays:    []int{2},
			reserved: []*engine.Reservation{reservedFor(t, "low", 4, at(5, "a")), reservedFor(t, "high", 4, at(9, "b"))},
			want:     []types.UID{"uid-low"},
		},
		"one that is there already is counted once": {
			stays:    []int{4, 4},
			reserved: []*engine.Reservation{reservedFor(t, "stays-1", 4, at(5, ""))},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seekers := counting
			if tt.unasked {
				seekers = func(*engine.Reservation) *seeker { return nil }
			}
			if got := uidsOf(crowdedOut(holding(tt.stays...), tt.reserved, seekers)); !slices.Equal(got, tt.want) {
				t.Errorf("%v are crowded out, want %v", got, tt.want)
			}
		})
	}
}

// TestCrowdedOutGivesWayToNoneBelow checks random reservations. Each kept reservation fits beside
// the other kept reservations. Each returned reservation does not fit beside the kept ones of equal
// or higher priority. Reservations of lower priority have no effect on this.
func TestCrowdedOutGivesWayToNoneBelow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		info := holding(rapid.SliceOfN(rapid.IntRange(1, 3), 0, 4).Draw(t, "stays")...)
		var reserved []*engine.Reservation
		for i := range rapid.IntRange(1, 5).Draw(t, "reservations") {
			standing := workload.Standing{
				Priority: int32(rapid.IntRange(0, 3).Draw(t, "priority")), Queue: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "queue"),
			}
			reserved = append(reserved, reservedFor(t, fmt.Sprintf("r-%d", i), rapid.IntRange(1, 5).Draw(t, "cpus"), standing))
		}
		out := crowdedOut(info, reserved, counting)
		kept := slices.DeleteFunc(slices.Clone(reserved), func(r *engine.Reservation) bool { return slices.Contains(out, r) })
		for _, r := range kept {
			above := slices.DeleteFunc(slices.Clone(kept), func(other *engine.Reservation) bool { return other.Priority < r.Priority })
			later := slices.Index(reserved, r)
			above = slices.DeleteFunc(above, func(other *engine.Reservation) bool {
				return other.Priority == r.Priority && slices.Index(reserved, other) > later
			})
			if !counting(r).fitsBeside(info, heldFrom(above, info, r.Standing, types.UID(r.UID))) {
				t.Fatalf("%s stays, and does not fit", r.UID)
			}
		}
		for _, r := range out {
			above := slices.DeleteFunc(slices.Clone(kept), func(other *engine.Reservation) bool { return other.Priority < r.Priority })
			if counting(r).fitsBeside(info, heldFrom(above, info, r.Standing, types.UID(r.UID))) {
				t.Fatalf("%s gives way, and fits", r.UID)
			}
		}
		top := slices.DeleteFunc(slices.Clone(reserved), func(r *engine.Reservation) bool { return r.Priority < 2 })
		of := slices.DeleteFunc(slices.Clone(out), func(r *engine.Reservation) bool { return r.Priority < 2 })
		if got := crowdedOut(info, top, counting); !slices.Equal(uidsOf(got), uidsOf(of)) {
			t.Fatalf("Without those below, %v are crowded out, and %v with them", uidsOf(got), uidsOf(of))
		}
	})
}
