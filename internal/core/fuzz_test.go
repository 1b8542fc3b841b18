package core

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
)

// fromBytes returns a chooser that uses the bytes of a fuzzer's input, then zeros.
func fromBytes(data []byte) chooser {
	return func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
}

// oddAmounts are quantities that do not occur in a valid cluster.
var oddAmounts = []int64{0, -1, 1, math.MaxInt64, math.MinInt64, maxAmount, maxAmount + 1, -maxAmount, math.MaxInt64 / 2}

// distort sets random fields of a case to invalid or extreme values.
func distort(pick chooser, s *Snapshot, p *Preemptor) {
	odd := func(a Amounts) {
		if len(a) > 0 {
			a[pick(len(a))] = oddAmounts[pick(len(oddAmounts))]
		}
	}
	for range pick(6) {
		u := pick(len(s.Units) + 1)
		switch pick(10) {
		case 0:
			odd(s.Nodes[pick(len(s.Nodes))].Free)
		case 1:
			odd(s.Nodes[pick(len(s.Nodes))].Allocatable)
		case 2:
			odd(p.Classes[pick(len(p.Classes))].Request)
		case 3:
			p.Priority = []int32{math.MinInt32, math.MaxInt32, 0}[pick(3)]
		case 4:
			p.MinCount = pick(9) - 2
		case 5:
			if len(s.Leaving) > 0 {
				s.Leaving[0].Node = pick(4) - 2
			}
		case 6:
			s.Nodes = s.Nodes[:pick(len(s.Nodes)+1)]
			if len(s.Nodes) == 0 {
				return
			}
		default:
			if u < len(s.Units) {
				distortUnit(pick, &s.Units[u], odd)
			}
		}
	}
}

func distortUnit(pick chooser, u *Unit, odd func(Amounts)) {
	switch pick(6) {
	case 0:
		odd(u.Pods[0].Request)
	case 1:
		u.Priority = []int32{math.MinInt32, math.MaxInt32}[pick(2)]
	case 2:
		u.Pods[0].Node = pick(9) - 3
	case 3:
		u.UID, u.Name = "uid-u0", "u0"
	case 4:
		u.Pods = append(u.Pods, u.Pods...)
	default:
		u.Pods[0].Budgets = []int{pick(4) - 1}
	}
}

// FuzzDecide checks that Decide returns a decision or an ErrBadInput for any input, and the same
// result for a second call. The Oracle's state must be unchanged afterwards.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 4, 1, 5, 2, 2, 2, 3, 3, 1, 0, 0, 2, 1, 1})
	f.Add([]byte{1, 0, 3, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 5, 2, 0, 3, 4, 1, 3})
	f.Add([]byte{2, 1, 2, 200, 100, 50, 25, 12, 6, 3, 1, 255, 254, 253, 252, 251, 250, 249, 248, 247, 5, 6, 0, 6, 0, 6, 0, 6, 0})
	f.Add([]byte("a gang of several classes, with budgets, leaving pods, and an oracle that has a say in everything"))
	shapes := []randomShape{podShape, gangShape, mixedShape, calmShape}
	f.Fuzz(func(t *testing.T, data []byte) {
		pick := fromBytes(data)
		s, p := randomCase(pick, shapes[pick(len(shapes))])
		withOracle := pick(2) == 0
		var w *world
		if withOracle {
			w = randomWorld(pick, s, p, true)
		}
		distort(pick, s, p)
		decide := func() string {
			var o Oracle
			if withOracle {
				o = w
			}
			d, err := Decide(s, p, o)
			if err != nil {
				if !errors.Is(err, ErrBadInput) {
					t.Fatalf("error %v does not wrap ErrBadInput", err)
				}
				return err.Error()
			}
			raw, err := json.Marshal(d)
			if err != nil {
				t.Fatalf("marshal: %v", err)
			}
			return string(raw)
		}
		first := decide()
		if withOracle && !w.restored() {
			t.Fatal("the oracle's simulation state is not restored")
		}
		if second := decide(); first != second {
			t.Fatalf("two decisions on one input:\n%s\n%s", first, second)
		}
	})
}
