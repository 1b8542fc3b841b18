package main

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// dashboard has the fields of a Grafana dashboard that this command draws.
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
	// Decimals is the number of decimal places. If it is nil, the panel shows the significant
	// digits.
	Decimals   *int
	Thresholds struct{ Steps []threshold }
	Custom     struct {
		// FillOpacity is the opacity of the area below a stacked line, in percent.
		FillOpacity     int
		Stacking        struct{ Mode string }
		ThresholdsStyle struct{ Mode string }
	}
}

// threshold is the color of the values that are at least Value. The first threshold has no Value
// and applies to all lower values.
type threshold struct {
	Color string
	Value *float64
}

// override changes the display of the lines whose names match.
type override struct {
	Matcher    struct{ ID, Options string }
	Properties []struct{ ID string }
}

// answers has the answers of Prometheus to the queries of the dashboard.
type answers struct {
	Begin, End int64
	Resource   string
	// Queries maps the expression of a query, as in the dashboard, to the series that Prometheus
	// returns.
	Queries map[string][]series
}

type series struct {
	Metric map[string]string
	Values []point
}

// point is a value at a time. The time is in seconds since 1970.
type point struct{ at, value float64 }

// UnmarshalJSON reads a sample of Prometheus: a list of the time as a number, and the value as a
// string.
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

// lines returns the lines of a panel. The name of a line is its name in the legend.
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

// fill replaces the variable $resource in a text by its value.
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

// colour returns the color that the thresholds give to a value. Without thresholds, colour uses
// Grafana's default: red from 80 on, and green below.
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
