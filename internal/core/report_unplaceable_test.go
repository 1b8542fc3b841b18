package core

import (
	"fmt"
	"testing"
)

// choosyClasses is an Oracle that rejects classes: on all nodes for one reason, or on each node for
// a reason of its own. Otherwise it is Arithmetic.
type choosyClasses struct {
	Arithmetic
	refuses map[int]string
}

func (o choosyClasses) Admits(class, node int) string {
	if why := o.refuses[class]; why != "by node" {
		return why
	}
	return fmt.Sprint("refused by node ", node)
}

// TestMembersThatNoNodeAdmits checks that the message names the reason if no node admits some
// members of a gang, although other members have room.
func TestMembersThatNoNodeAdmits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refuses map[int]string
		want    string
	}{
		"for one reason": {
			refuses: map[int]string{1: "claim not bound"},
			want:    "needs room for 4 members; 2 have it as things are; no node admits 2 members: claim not bound",
		},
		"on each node for another reason": {
			refuses: map[int]string{1: "by node"},
			want:    "needs room for 4 members; 2 have it as things are; no node admits 2 members",
		},
		"all of them": {
			refuses: map[int]string{0: "tainted", 1: "tainted"},
			want:    "needs room for 4 members; 0 have it as things are (of 2 nodes: 2 tainted)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clusterOf("gpu").node("a", 8).node("b", 8).snapshot()
			d := mustDecide(t, s, gangOf(10, 4, members("w", 2, 0, 2), members("c", 2, 2, 4)), choosyClasses{refuses: tt.refuses})
			if d.Outcome != Infeasible || d.Message != tt.want {
				t.Errorf("%s: %q, want %q", d.Outcome, d.Message, tt.want)
			}
		})
	}
}
