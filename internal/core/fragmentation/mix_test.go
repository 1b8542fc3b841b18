package fragmentation_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprieve-dev/reprieve/internal/core/fragmentation"
)

// gpu is the index of the devices. Index 0 is for CPUs.
const gpu = 1

func shape(weight int64, request ...int64) fragmentation.Shape {
	return fragmentation.Shape{Request: request, Weight: weight}
}

// mix returns a mix with pods with one GPU, pods with eight GPUs, and pods without GPUs.
func mix() *fragmentation.Mix {
	return &fragmentation.Mix{Device: gpu, Shapes: []fragmentation.Shape{shape(6, 8, 1), shape(3, 64, 8), shape(1, 4, 0)}}
}

// TestDefinitions checks the definitions of the FGD paper for whole devices. The weights of the mix
// add up to 10.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free []int64
		want int64
	}{
		"all pods with GPUs fit":              {[]int64{96, 8}, 1 * 8},
		"too few GPUs for one kind":           {[]int64{96, 7}, (3 + 1) * 7},
		"too few CPUs for one kind":           {[]int64{63, 8}, (3 + 1) * 8},
		"too few CPUs for all kinds":          {[]int64{7, 8}, 10 * 8},
		"CPUs for pods without GPUs alone":    {[]int64{4, 8}, 10 * 8},
		"no free GPU":                         {[]int64{96, 0}, 0},
		"more GPUs requested than there are":  {[]int64{96, -1}, 0},
		"more CPUs requested than there are":  {[]int64{-1, 2}, 10 * 2},
		"as many CPUs as one kind wants":      {[]int64{8, 1}, (3 + 1) * 1},
		"as many amounts as the largest kind": {[]int64{64, 8}, 1 * 8},
	} {
		if got := mix().Unusable(c.free); got != c.want {
			t.Errorf("%s: the fragmentation is %d, want %d", name, got, c.want)
		}
	}
}

// TestGradient checks the rise of the fragmentation by a placement.
func TestGradient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free, request []int64
		want          int64
	}{
		"a pod breaks a whole node":          {[]int64{96, 8}, []int64{8, 1}, (3+1)*7 - 8},
		"a pod uses the last GPU":            {[]int64{96, 1}, []int64{8, 1}, -(3 + 1)},
		"a pod without GPUs uses needed CPU": {[]int64{64, 8}, []int64{4, 0}, 3 * 8},
		"a pod without GPUs uses spare CPU":  {[]int64{96, 8}, []int64{4, 0}, 0},
		"a pod without GPUs beside no GPU":   {[]int64{96, 0}, []int64{96, 0}, 0},
		"a pod uses a whole node":            {[]int64{64, 8}, []int64{64, 8}, -8},
	} {
		if got := mix().Rise(c.free, c.request); got != c.want {
			t.Errorf("%s: the rise is %d, want %d", name, got, c.want)
		}
	}
}

// TestRiseIsTheDifference checks that [fragmentation.Mix.Rise] is the difference of the
// fragmentation after and before a placement. It also checks the bounds of the fragmentation.
func TestRiseIsTheDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := func(most int64) int64 { return rapid.Int64Range(0, most).Draw(t, "amount") }
		m := &fragmentation.Mix{Device: gpu}
		for range 1 + amount(5) {
			m.Shapes = append(m.Shapes, shape(1+amount(9), amount(12), amount(8)))
		}
		if err := m.Check(2); err != nil {
			t.Fatal(err)
		}
		free, request := []int64{amount(16), amount(8)}, []int64{amount(8), amount(4)}
		after := []int64{free[0] - request[0], free[1] - request[1]}
		if got, want := m.Rise(free, request), m.Unusable(after)-m.Unusable(free); got != want {
			t.Fatalf("the rise is %d, and the fragmentation changes by %d", got, want)
		}
		if got := m.Unusable(free); got < 0 || got > m.Weight()*free[gpu] {
			t.Fatalf("the fragmentation is %d, with %d free devices of weight %d", got, free[gpu], m.Weight())
		}
		slices.Reverse(m.Shapes)
		if got, want := m.Rise(free, request), m.Unusable(after)-m.Unusable(free); got != want {
			t.Fatalf("in another order of kinds, the rise is %d instead of %d", got, want)
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	many := &fragmentation.Mix{Device: gpu}
	for range fragmentation.MostShapes + 1 {
		many.Shapes = append(many.Shapes, shape(1, 1, 1))
	}
	for name, m := range map[string]*fragmentation.Mix{
		"no kinds":          {Device: gpu},
		"too many kinds":    many,
		"an unknown device": {Device: 2, Shapes: mix().Shapes},
		"a negative device": {Device: -1, Shapes: mix().Shapes},
		"too few amounts":   {Device: gpu, Shapes: []fragmentation.Shape{shape(1, 1)}},
		"no weight":         {Device: gpu, Shapes: []fragmentation.Shape{shape(0, 1, 1)}},
		"too large":         {Device: gpu, Shapes: []fragmentation.Shape{shape(fragmentation.MostWeight+1, 1, 1)}},
	} {
		if err := m.Check(2); !errors.Is(err, fragmentation.ErrMix) {
			t.Errorf("%s: the error is %v, want %v", name, err, fragmentation.ErrMix)
		}
	}
	if err := mix().Check(2); err != nil {
		t.Error(err)
	}
}
