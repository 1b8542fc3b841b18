package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

const drawn = `{"panels": [
	{"type": "row", "title": "All <of> it", "gridPos": {"h": 1, "w": 24, "x": 0, "y": 0}},
	{"type": "stat", "title": "Last", "gridPos": {"h": 8, "w": 4, "x": 0, "y": 1}, "targets": [{"expr": "a", "legendFormat": "a"}],
	 "fieldConfig": {"defaults": {"unit": "percentunit", "thresholds": {"steps": [{"color": "green", "value": null}, {"color": "red", "value": 0.01}]}}}},
	{"type": "timeseries", "title": "$resource by queue", "gridPos": {"h": 8, "w": 8, "x": 4, "y": 1},
	 "targets": [{"expr": "b", "legendFormat": "{{queue}}"}, {"expr": "c", "legendFormat": "{{queue}} has of $resource"}],
	 "fieldConfig": {"defaults": {"unit": "s"}, "overrides": [{"matcher": {"id": "byRegexp", "options": ".* has .*"}, "properties": [{"id": "custom.lineStyle"}]}]}},
	{"type": "timeseries", "title": "Empty", "gridPos": {"h": 8, "w": 8, "x": 12, "y": 1}, "targets": [{"expr": "d"}]}
]}`

const answered = `{"begin": 100, "end": 110, "resource": "gpu", "queries": {
	"a": [{"metric": {}, "values": [[100, "0"], [101, "0.025"], [102, "NaN"]]}],
	"b": [{"metric": {"queue": "x"}, "values": [[100, "1"], [101, "1"], [102, "1"], [103, "2"]]}],
	"c": [{"metric": {"queue": "x"}, "values": [[100, "0.002"]]}],
	"d": [{"metric": {}, "values": [[100, "NaN"]]}]
}}`

func decode(t *testing.T) (*dashboard, *answers) {
	t.Helper()
	var d dashboard
	var a answers
	for text, into := range map[string]any{drawn: &d, answered: &a} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	return &d, &a
}

// TestDraw checks that the picture is valid XML, and that each panel shows the expected text.
func TestDraw(t *testing.T) {
	t.Parallel()
	d, a := decode(t)
	picture, err := draw(d, a)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
		if text, ok := token.(xml.CharData); ok {
			texts = append(texts, string(text))
		}
	}
	for _, want := range []string{"All <of> it", "2.5%", "gpu by queue", "x", "x has of gpu", "2 s", "No data"} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is not to be read, but %q", want, texts)
		}
	}
	for _, want := range []string{`class="stat red"`, `stroke-dasharray="6 6"`} {
		if !strings.Contains(picture, want) {
			t.Errorf("the picture has no %s", want)
		}
	}
	delete(a.Queries, "b")
	if _, err := draw(d, a); err == nil {
		t.Error("it is drawn without an answer to one of its queries")
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0, "none", "0"},
		{3, "none", "3"},
		{0.0125, "percentunit", "1.25%"},
		{0.00071, "s", "710 µs"},
		{0.0042, "s", "4.2 ms"},
		{90, "s", "1.5 min"},
		{0.5, "h", "30 min"},
		{1500, "short", "1.5 K"},
		{2, "suffix: Pods/s", "2 Pods/s"},
	} {
		if got := format(tc.value, tc.unit); got != tc.want {
			t.Errorf("%v in %s is %q, want %q", tc.value, tc.unit, got, tc.want)
		}
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	for most, want := range map[float64][]float64{
		0: {0, 0.2, 0.4, 0.6, 0.8, 1}, 7: {0, 2, 4, 6, 8}, 24: {0, 5, 10, 15, 20, 25}, 100: {0, 20, 40, 60, 80, 100},
	} {
		got := ticks(most)
		if len(got) != len(want) {
			t.Errorf("up to %v there are %v, want %v", most, got, want)
			continue
		}
		for i := range got {
			if d := got[i] - want[i]; d > 1e-9 || d < -1e-9 {
				t.Errorf("up to %v there are %v, want %v", most, got, want)
			}
		}
	}
}

// TestStack checks that each stacked line adds its value to the lines below it. If a line has no
// value at a time, it adds nothing.
func TestStack(t *testing.T) {
	t.Parallel()
	got := stack([]line{{name: "a", points: []point{{1, 2}, {2, 3}}}, {name: "b", points: []point{{2, 4}, {3, 5}}}})
	want := [][]point{{{1, 2}, {2, 3}, {3, 0}}, {{1, 2}, {2, 7}, {3, 5}}}
	for i := range want {
		if !slices.Equal(got[i].points, want[i]) {
			t.Errorf("%s is at %v, want %v", got[i].name, got[i].points, want[i])
		}
	}
}
