package main

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// dashboard is the part of a Grafana dashboard that this command draws.
type dashboard struct {
	Panels []panel
}

type panel struct {
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults  field
		Overrides []override
	}
	Targets []struct{ Expr, LegendFormat string }
}

type field struct {
	Unit string
	// Decimals is the number of decimal places; nil to show the significant ones.
	Decimals   *int
	Thresholds struct{ Steps []threshold }
	Custom     struct {
		// FillOpacity is the opacity of the area below stacked lines, in percent.
		FillOpacity     int
		Stacking        struct{ Mode string }
		ThresholdsStyle struct{ Mode string }
	}
}

// threshold is the color of values from Value on. The first threshold has no Value.
type threshold struct {
	Color string
	Value *float64
}

// override changes the display of the lines whose names match.
type override struct {
	Matcher    struct{ ID, Options string }
	Properties []struct{ ID string }
}

// answers are the answers to the queries.
type answers struct {
	Begin, End int64
	Resource   string
	// Queries has the series that answer each query, by the query's expression in the dashboard.
	Queries map[string][]series
}

type series struct {
	Metric map[string]string
	Values []point
}

// point is a value at a time, in seconds.
type point struct{ at, value float64 }

// UnmarshalJSON reads a pair: a time as a number, and a value as a string.
func (p *point) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &[]any{&p.at, &text}); err != nil {
		return fmt.Errorf("read a sample: %w", err)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("read a sample: %w", err)
	}
	p.value = value
	return nil
}

// line is one series of a panel.
type line struct {
	name   string
	dashed bool
	points []point
}

// lines returns the lines of a panel, with the names of the legend.
func (a *answers) lines(p *panel) ([]line, error) {
	label := regexp.MustCompile(`\{\{\s*([a-zA-Z_]+)\s*\}\}`)
	var out []line
	for _, target := range p.Targets {
		answer, ok := a.Queries[target.Expr]
		if !ok {
			return nil, fmt.Errorf("panel %q: there is no answer to %s", p.Title, target.Expr)
		}
		for _, s := range answer {
			name := label.ReplaceAllStringFunc(a.fill(target.LegendFormat), func(found string) string {
				return s.Metric[label.FindStringSubmatch(found)[1]]
			})
			l := line{name: name}
			for _, o := range p.FieldConfig.Overrides {
				l.dashed = l.dashed || o.dashes(name)
			}
			for _, v := range s.Values {
				if !math.IsNaN(v.value) && !math.IsInf(v.value, 0) {
					l.points = append(l.points, v)
				}
			}
			if len(l.points) > 0 {
				out = append(out, l)
			}
		}
	}
	return out, nil
}

// fill replaces the variables in a text by their values.
func (a *answers) fill(text string) string { return strings.ReplaceAll(text, "$resource", a.Resource) }

func (o *override) dashes(name string) bool {
	if o.Matcher.ID != "byRegexp" {
		return false
	}
	matches, err := regexp.MatchString(o.Matcher.Options, name)
	if err != nil || !matches {
		return false
	}
	for _, p := range o.Properties {
		if p.ID == "custom.lineStyle" {
			return true
		}
	}
	return false
}

// colour returns the color of a value by the thresholds. Without thresholds, Grafana uses green,
// and red from 80 on.
func (f *field) colour(value float64) string {
	steps := f.Thresholds.Steps
	if len(steps) == 0 {
		eighty := 80.0
		steps = []threshold{{Color: "green"}, {Color: "red", Value: &eighty}}
	}
	out := ""
	for _, s := range steps {
		if s.Value == nil || value >= *s.Value {
			out = s.Color
		}
	}
	return out
}
