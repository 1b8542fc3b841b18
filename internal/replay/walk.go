package replay

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// Walk calls visit for each line of inputs, with the cluster after that line. It visits all lines
// of one process before the lines of the next process. The processes are in the order of their
// first lines. Walk skips lines whose cluster is unknown because an earlier line is missing.
func (l *Log) Walk(visit func(in *decisionlog.Inputs, cluster *inventory.Inventory) error) error {
	var streams [][]*decisionlog.Inputs
	for _, stream := range l.streams() {
		streams = append(streams, stream)
	}
	slices.SortFunc(streams, func(a, b []*decisionlog.Inputs) int {
		return cmp.Or(a[0].Time.Compare(b[0].Time), cmp.Compare(a[0].Process, b[0].Process))
	})
	for _, stream := range streams {
		s, visited := &state{}, uint64(0)
		for _, in := range stream {
			if err := s.next(in); err != nil {
				l.pass(err.Error())
			}
			if s.objects == nil || s.number != in.Number || in.Number == visited {
				continue
			}
			visited = in.Number
			if err := visit(in, s.objects.At(in.Time)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Evicted returns the UIDs of the pods that the decisions of the log evicted.
func (l *Log) Evicted() map[types.UID]bool {
	out := make(map[types.UID]bool)
	for i := range l.records {
		r := &l.records[i]
		if r.Result.State != decisionlog.CarriedOut && r.Result.State != decisionlog.UnderWay {
			continue
		}
		for _, victim := range r.Decision.Victims {
			for _, pod := range victim.Pods {
				out[types.UID(pod.UID)] = true
			}
		}
	}
	return out
}
