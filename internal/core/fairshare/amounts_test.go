package fairshare

import (
	"math"
	"testing"
)

// TestSumsOfLargeAmounts checks that sums and products do not exceed the range of int64.
func TestSumsOfLargeAmounts(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	for name, tc := range map[string]struct{ got, want int64 }{
		"small":                    {Add(2, -3), -1},
		"past the largest":         {Add(most, 1), most},
		"past the smallest":        {Add(least, -1), least},
		"small times few":          {Times(3, 4), 12},
		"none":                     {Times(most, 0), 0},
		"the largest once":         {Times(most, 1), most},
		"large times many":         {Times(MaxUsage, 1<<20), most},
		"a negative request":       {Usage(-1), 0},
		"a request of a whole pod": {Usage(8), 8},
		"a huge request":           {Usage(most), MaxUsage},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", name, tc.got, tc.want)
		}
	}
}

// TestUsageOfLargePods checks that the usage of a queue is positive while it has pods with large
// requests. After the pods are removed, the usage must be 0 again.
func TestUsageOfLargePods(t *testing.T) {
	tree, _ := NewTree(1, []Queue{queue("a"), queue("b")})
	a, _ := tree.Find("a")
	used := make([]int64, tree.Len())
	const pods = 100_000
	for range pods {
		if tree.Use(used, a, Amounts{math.MaxInt64}, 1); used[a] <= 0 {
			t.Fatalf("the usage is %d", used[a])
		}
	}
	for range pods {
		tree.Use(used, a, Amounts{math.MaxInt64}, -1)
	}
	if used[a] != 0 {
		t.Errorf("the usage is %d without any pod", used[a])
	}
}

// TestNothingLargeIsEntitled checks that a request of maximum size exceeds the fair share.
func TestNothingLargeIsEntitled(t *testing.T) {
	tree, _ := NewTree(1, []Queue{queue("a")})
	large := Amounts{math.MaxInt64}
	s := &Balance{Tree: tree, Capacity: Amounts{8}, Allocated: []Amounts{{4}}, Shares: []Amounts{{8}}}
	if s.Entitled(0, large) || s.Within(0, []Amounts{large}, nil) != 0 || s.Within(0, []Amounts{{1}}, map[int32]Amounts{0: large}) != 0 ||
		s.Within(0, []Amounts{{4}, large}, nil) != 1 {
		t.Error("A queue is entitled to more than there is")
	}
}
