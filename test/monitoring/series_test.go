package monitoring

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrapes is the interval between two samples of a series.
const scrapes = time.Minute

// database is a list of time series in memory. It implements the storage interface of Prometheus.
type database []storage.Series

// newDatabase parses series in the notation of promtool's unit tests. Each line has a metric with
// labels, and its values at intervals of one minute, such as `up{job="a"} 1+0x30`.
func newDatabase(t *testing.T, p parser.Parser, text string) database {
	t.Helper()
	var db database
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		metric, values, err := p.ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("series %q: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{at: time.Duration(i) * scrapes, value: v.Value})
			}
		}
		db = append(db, storage.NewListSeries(metric, samples))
	}
	return db
}

// Querier returns all series, regardless of the time range.
func (d database) Querier(int64, int64) (storage.Querier, error) {
	return querier{LabelQuerier: storage.NoopQuerier(), database: d}, nil
}

type querier struct {
	storage.LabelQuerier
	database database
}

// Select implements storage.Querier.
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	out := &seriesSet{at: -1}
	for _, series := range q.database {
		matches := true
		for _, m := range matchers {
			matches = matches && m.Matches(series.Labels().Get(m.Name))
		}
		if matches {
			out.series = append(out.series, series)
		}
	}
	return out
}

type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// engine is the query engine of Prometheus with its parser.
type engine struct {
	*promql.Engine
	parser parser.Parser
}

func newEngine() engine {
	p := parser.NewParser(parser.Options{})
	return engine{parser: p, Engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 100000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
	})}
}

// at returns the value of an expression. The time is the duration since the start of the series.
func (e engine) at(t *testing.T, db database, expression string, at time.Duration) promql.Vector {
	t.Helper()
	query, err := e.NewInstantQuery(t.Context(), db, nil, expression, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	if result.Err != nil {
		t.Fatalf("%s: %v", expression, result.Err)
	}
	if len(result.Warnings) > 0 {
		t.Errorf("%s: %v", expression, result.Warnings)
	}
	switch v := result.Value.(type) {
	case promql.Vector:
		var out promql.Vector
		for _, s := range v {
			if !math.IsNaN(s.F) {
				out = append(out, s)
			}
		}
		return out
	default:
		t.Fatalf("%s is a %s, want a vector", expression, v.Type())
		return nil
	}
}
