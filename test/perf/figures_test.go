package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadFigures(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"BenchmarkPerfScheduling_upstream.json": `{"version": "v1", "dataItems": [
			{"data": {"Average": 10, "Perc50": 11, "Perc90": 12, "Perc95": 13, "Perc99": 14}, "unit": "pods/s",
			 "labels": {"Metric": "SchedulingThroughput", "Name": "upstream/gangs/upstream/full/measured"}},
			{"data": {"Average": 99}, "unit": "ms",
			 "labels": {"Metric": "scheduler_scheduling_attempt_duration_seconds", "Name": "upstream/gangs/upstream/full/measured"}}]}`,
		"stopwatch_gangs_upstream_full.json": `{"version": "v1", "dataItems": [
			{"data": {"Wanted": 30, "Created": 30, "Bound": 29, "Total": 3, "Average": 1, "Perc50": 2, "Perc90": 3, "Perc99": 4}, "unit": "s",
			 "labels": {"Metric": "Stopwatch", "Name": "gangs/upstream/full/measured"}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readFigures(dir, "gangs")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*figures{
		upstream: {
			Wanted: 30, Bound: 29, Total: 3,
			PerSecond: quantiles{10, 11, 12, 14}, Waits: quantiles{1, 2, 3, 4},
		},
		reprieve:   {},
		unqueued:   {},
		callsAlone: {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestMedian(t *testing.T) {
	done := func(total float64) *figures { return &figures{Wanted: 5, Bound: 5, Total: total} }
	stuck := func(bound int) *figures { return &figures{Wanted: 5, Bound: bound, Total: 1} }
	tests := map[string]struct {
		runs []*figures
		want *figures
	}{
		"of three":                         {runs: []*figures{done(3), done(1), done(2)}, want: done(2)},
		"runs that did not finish are out": {runs: []*figures{stuck(4), done(3), stuck(0)}, want: done(3)},
		"none finished":                    {runs: []*figures{stuck(1), stuck(4), stuck(2)}, want: stuck(4)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, median(test.runs)); diff != "" {
				t.Errorf("median (-want +got):\n%s", diff)
			}
		})
	}
}
