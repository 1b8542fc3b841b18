package monitoring

import (
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// sample is a value of a series at a time. The time is the duration since the start of the series.
type sample struct {
	at    time.Duration
	value float64
}

func (s sample) T() int64                      { return s.at.Milliseconds() }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
