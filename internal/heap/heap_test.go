package heap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// item keeps its index in the heap in the field at.
type item struct{ value, at int }

// TestHeap pushes, pops, removes and replaces random items. After each step, the least item must be
// on top, and each item must know its index.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Heap[*item]{
			Before: func(a, b **item) bool { return (*a).value < (*b).value },
			Moved:  func(i **item, at int) { (*i).at = at },
		}
		var in []*item
		gone := func(i *item) { in = slices.DeleteFunc(in, func(other *item) bool { return other == i }) }
		value := rapid.IntRange(0, 20)
		for range rapid.IntRange(0, 8).Draw(t, "at first") {
			in = append(in, &item{value: value.Draw(t, "value")})
		}
		h.Items = slices.Clone(in)
		h.Init()
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				i := &item{value: value.Draw(t, "value")}
				in = append(in, i)
				h.Push(i)
			},
			"pop": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip("nothing is in it")
				}
				top := h.Items[0]
				if got := h.Pop(); got != top {
					t.Fatalf("popped %+v, and %+v was on top", got, top)
				}
				gone(top)
			},
			"remove": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip("nothing is in it")
				}
				i := rapid.SampledFrom(in).Draw(t, "item")
				if got := h.Remove(i.at); got != i {
					t.Fatalf("removed %+v, want %+v", got, i)
				}
				gone(i)
			},
			"replace": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip("nothing is in it")
				}
				gone(h.Items[0])
				i := &item{value: value.Draw(t, "value")}
				in = append(in, i)
				h.Replace(i)
			},
			"": func(t *rapid.T) {
				if len(h.Items) != len(in) {
					t.Fatalf("%d are in it, want %d", len(h.Items), len(in))
				}
				for at, i := range h.Items {
					if i.at != at {
						t.Fatalf("%+v stands at %d", i, at)
					}
					if !slices.Contains(in, i) || i.value < h.Items[0].value {
						t.Fatalf("%+v is in it with %+v on top", i, h.Items[0])
					}
				}
			},
		})
	})
}
