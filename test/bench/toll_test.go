package bench

import (
	"slices"
	"testing"
)

func TestToll(t *testing.T) {
	s := full(2, small, 4, oneCPU, func(n, i int) int32 { return int32(10*n + i) })
	inGroups(s, func(_, i int) int { return i / 2 })
	s.addBudget("work", 3)
	s.addBudget("other", 0)
	tests := map[string]struct {
		take outcome
		want toll
	}{
		"one node, both groups, one pod beyond the budget": {
			take: outcome{victims: s.running[1], placed: 1},
			want: toll{victims: 4, workloads: 2, highest: 13, sum: 46, broken: 1, placed: 1},
		},
		"one group on both nodes": {
			take: outcome{victims: slices.Concat(s.running[0][:2], s.running[1][:1]), placed: 2},
			want: toll{victims: 3, workloads: 1, highest: 10, sum: 11, placed: 2},
		},
		"pods that belong to no group": {
			take: outcome{victims: full(1, small, 3, oneCPU, always(-5)).running[0]},
			want: toll{victims: 3, workloads: 3, highest: -5, sum: -15},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tollOf(tt.take, s.budgets); got != tt.want {
				t.Errorf("toll %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestCompareTolls(t *testing.T) {
	base := toll{victims: 4, highest: 20, sum: 60, broken: 1}
	better := map[string]toll{
		"fewer beyond the budgets, whatever else": {victims: 9, highest: 90, sum: 600},
		"a lower highest priority":                {victims: 9, highest: 10, sum: 600, broken: 1},
		"a smaller sum":                           {victims: 9, highest: 20, sum: 50, broken: 1},
		"fewer pods":                              {victims: 3, highest: 20, sum: 60, broken: 1},
	}
	for name, b := range better {
		if compareTolls(b, base) >= 0 || compareTolls(base, b) <= 0 {
			t.Errorf("%s: %+v does not come before %+v", name, b, base)
		}
	}
}

func TestSpan(t *testing.T) {
	of := func(t toll) int { return t.victims }
	if got := span([]toll{{victims: 5}, {victims: 3}, {victims: 4}}, of); got != "3–5" {
		t.Errorf("span of different values: %s", got)
	}
	if got := span([]toll{{victims: 5}, {victims: 5}}, of); got != "5" {
		t.Errorf("span of one value: %s", got)
	}
}
