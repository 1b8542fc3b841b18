package core

import (
	"math"
	"testing"
)

// TestJudge has a row for each rule, and for each border between two.
func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		preemptor Preemptor
		unit      Unit
		want      Verdict
	}{
		"lower priority": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 9},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"equal priority": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 10},
			want:      Verdict{Rule: RuleNotLowerPriority},
		},
		"higher priority": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 11},
			want:      Verdict{Rule: RuleNotLowerPriority},
		},
		"the ends of the range": {
			preemptor: Preemptor{Priority: math.MaxInt32},
			unit:      Unit{Priority: math.MinInt32},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"own gang, though lower in priority": {
			preemptor: Preemptor{Priority: 10, PodGroup: "a"},
			unit:      Unit{Priority: 1, PodGroup: "a"},
			want:      Verdict{Rule: RuleOwnGang},
		},
		"another gang": {
			preemptor: Preemptor{Priority: 10, PodGroup: "a"},
			unit:      Unit{Priority: 1, PodGroup: "b"},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"within its toleration": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7}},
			want:      Verdict{Rule: RuleToleration, Until: 7},
		},
		"exactly at the end of its toleration": {
			preemptor: Preemptor{Priority: 10, Now: 7},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7}},
			want:      Verdict{Rule: RuleToleration, Until: 7},
		},
		"after its toleration": {
			preemptor: Preemptor{Priority: 10, Now: 8},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: 7}},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"a toleration that does not reach as high": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 10, Until: 7}},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
		"a toleration without an end": {
			preemptor: Preemptor{Priority: 10, Now: 5},
			unit:      Unit{Priority: 1, Toleration: &Toleration{Below: 11, Until: Forever}},
			want:      Verdict{Rule: RuleToleration},
		},
		"two pods without a gang": {
			preemptor: Preemptor{Priority: 10},
			unit:      Unit{Priority: 1},
			want:      Verdict{Eligible: true, Rule: RuleLowerPriority},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Judge(&tc.preemptor, &tc.unit); got != tc.want {
				t.Errorf("Judge() = %+v, want %+v", got, tc.want)
			}
		})
	}
}
