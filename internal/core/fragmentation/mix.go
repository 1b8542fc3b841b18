package fragmentation

import (
	"errors"
	"fmt"
)

// Mix is a typical workload. It is never changed, so any goroutine may read it.
type Mix struct {
	// Device is the index of the device resource in all amounts.
	Device int
	// Shapes are the kinds of pods. There are at most [MostShapes].
	Shapes []Shape
}

// Shape is one kind of pod.
type Shape struct {
	// Request is the room that one pod occupies.
	Request []int64
	// Weight is the frequency of pods of this shape, relative to the other shapes of the mix. It is
	// between 1 and [MostWeight].
	Weight int64
}

// Limits of a mix. Within these limits, the fragmentation of a node does not overflow.
const (
	MostShapes = 128
	MostWeight = 1_000_000
	// mostDevices is the maximum number of free devices that is counted on a node.
	mostDevices = 1 << 32
)

// ErrMix is wrapped by the errors of [Mix.Check].
var ErrMix = errors.New("not a mix of workloads")

// Check returns an error if the mix is not valid for amounts with the given number of resources.
func (m *Mix) Check(resources int) error {
	switch {
	case m.Device < 0 || m.Device >= resources:
		return fmt.Errorf("%w: resource %d of %d is the device", ErrMix, m.Device, resources)
	case len(m.Shapes) == 0 || len(m.Shapes) > MostShapes:
		return fmt.Errorf("%w: %d kinds of pods; from 1 to %d are supported", ErrMix, len(m.Shapes), MostShapes)
	}
	for i := range m.Shapes {
		sh := &m.Shapes[i]
		if len(sh.Request) != resources {
			return fmt.Errorf("%w: kind %d has %d amounts for %d resources", ErrMix, i, len(sh.Request), resources)
		}
		if sh.Weight < 1 || sh.Weight > MostWeight {
			return fmt.Errorf("%w: kind %d has the weight %d; from 1 to %d are supported", ErrMix, i, sh.Weight, MostWeight)
		}
	}
	return nil
}

// Weight returns the sum of the weights of all shapes.
func (m *Mix) Weight() (sum int64) {
	for i := range m.Shapes {
		sum += m.Shapes[i].Weight
	}
	return sum
}

// Unusable returns the fragmentation of a node with the given free amounts, multiplied by
// [Mix.Weight]. A kind of pod that does not fit can use none of the free devices. A kind that
// requests no device uses none either. All other kinds can use all free devices.
func (m *Mix) Unusable(free []int64) (sum int64) {
	devices := min(free[m.Device], mostDevices)
	if devices <= 0 {
		return 0
	}
	for i := range m.Shapes {
		if sh := &m.Shapes[i]; !sh.usesDevices(m.Device) || !fits(sh.Request, free) {
			sum += sh.Weight * devices
		}
	}
	return sum
}

// Rise returns the change of the node's fragmentation if a pod with this request is placed there,
// in the unit of [Mix.Unusable]. It is negative if the pod uses devices that most of the mix cannot
// use.
func (m *Mix) Rise(free, request []int64) (sum int64) {
	before := max(min(free[m.Device], mostDevices), 0)
	after := max(min(free[m.Device]-request[m.Device], mostDevices), 0)
	if before == 0 {
		return 0
	}
	for i := range m.Shapes {
		sh := &m.Shapes[i]
		switch {
		case !sh.usesDevices(m.Device) || !fits(sh.Request, free):
			sum += sh.Weight * (after - before)
		case !fitsBeside(sh.Request, free, request):
			sum += sh.Weight * after
		}
	}
	return sum
}

func (sh *Shape) usesDevices(device int) bool { return sh.Request[device] > 0 }

// fits reports whether room is enough for a request. Resources that are not requested are ignored.
func fits(request, room []int64) bool {
	for r, v := range request {
		if v > 0 && v > room[r] {
			return false
		}
	}
	return true
}

// fitsBeside is like fits, for the room after other is subtracted.
func fitsBeside(request, room, other []int64) bool {
	for r, v := range request {
		if v > 0 && v > room[r]-other[r] {
			return false
		}
	}
	return true
}
