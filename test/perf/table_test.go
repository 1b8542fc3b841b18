package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testRows() []row {
	return []row{
		{name: "rate", title: "pods that fit", aim: aim{ratio: 1.5}},
		{name: "ends", title: "pods that do not"},
		{name: "burst", title: "pods that come at once", overall: true},
		{name: "beside", title: "pods beside preemptors", aim: aim{ratio: 0.9, of: "rate"}},
		{name: "gang", title: "a gang", gang: true, aim: aim{calls: 1.2}},
	}
}

func TestTable(t *testing.T) {
	all := testRows()
	results := []result{
		{
			row:      all[0],
			upstream: &figures{Wanted: 5000, Bound: 5000, Total: 30, PerSecond: quantiles{190.4, 160, 350, 400}, Waits: quantiles{Average: 12}},
			ours:     &figures{Wanted: 5000, Bound: 5000, Total: 15, PerSecond: quantiles{380.8, 370, 390, 400}, Waits: quantiles{Average: 0.25}},
		},
		{
			row:      all[1],
			upstream: &figures{Wanted: 5000, Bound: 3211, Total: 600, PerSecond: quantiles{5, 4, 8, 9}, Waits: quantiles{Average: 300}},
			ours:     &figures{},
		},
		{
			row:      all[2],
			upstream: &figures{Wanted: 5, Bound: 5, Total: 30, PerSecond: quantiles{1, 1, 1, 1}},
			ours:     &figures{Wanted: 5, Bound: 5, Total: 20, PerSecond: quantiles{9, 9, 9, 9}},
		},
		{
			row:      all[3],
			upstream: &figures{Wanted: 5, Bound: 5, Total: 30, PerSecond: quantiles{150, 1, 1, 1}},
			ours:     &figures{Wanted: 5, Bound: 5, Total: 20, PerSecond: quantiles{361.76, 9, 9, 9}},
		},
		{
			row:      all[4],
			upstream: &figures{Wanted: 100, Bound: 100, Total: 18, Waits: quantiles{16, 17, 17.5, 18}},
			ours:     &figures{Wanted: 100, Bound: 100, Total: 2.25, Waits: quantiles{1, 1.1, 1.2, 2.2}},
			calls:    &figures{Wanted: 100, Bound: 100, Total: 1.5, Waits: quantiles{1, 1.1, 1.2, 1.4}},
		},
	}
	want := strings.TrimPrefix(`
SETTING

| Workload | Scheduler | Pods/s | p50 | p90 | p99 | All placed | Mean wait | Ratio | Aim |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| pods that fit | kube-scheduler | 190 | 160 | 350 | 400 | 30.0 s | 12.0 s |  |  |
| pods that fit | Reprieve | 381 | 370 | 390 | 400 | 15.0 s | 0.25 s | 2.00× | ≥ 1.5×: met |
| pods that do not | kube-scheduler | 5 | 4 | 8 | 9 | gave up at 3,211 of 5,000 | — |  |  |
| pods that do not | Reprieve | — | — | — | — | failed | — | — | finishes: missed |
| pods that come at once | kube-scheduler | 1 | 1 | 1 | 1 | 30.0 s | — |  |  |
| pods that come at once | Reprieve | 9 | 9 | 9 | 9 | 20.0 s | — | 1.50× | finishes: met |
| pods beside preemptors | kube-scheduler | 150 | 1 | 1 | 1 | 30.0 s | — |  |  |
| pods beside preemptors | Reprieve | 362 | 9 | 9 | 9 | 20.0 s | — | 2.41× | ≥ 0.9× rate, 0.95×: met |

| Workload | Scheduler | Whole gang | p50 | p90 | p99 | Ratio | Aim |
| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| a gang | kube-scheduler | 18.0 s | 17.0 s | 17.5 s | 18.0 s |  |  |
| a gang | the API calls alone | 1.50 s | 1.10 s | 1.20 s | 1.40 s |  |  |
| a gang | Reprieve | 2.25 s | 1.10 s | 1.20 s | 2.20 s | 0.12× | ≤ 1.2× the calls, 1.50×: missed |
`, "\n")
	got := table("SETTING", all, sizeFull, results, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	t.Run("rows that were not run keep their lines", func(t *testing.T) {
		if diff := cmp.Diff(got, table("SETTING", all, sizeFull, results[:1], got)); diff != "" {
			t.Errorf("table (-want +got):\n%s", diff)
		}
	})
	t.Run("lines from another setting are dropped", func(t *testing.T) {
		if again := table("OTHER", all, sizeFull, results[:1], got); strings.Contains(again, "a gang") || strings.Contains(again, "SETTING") {
			t.Errorf("lines of another setting are left:\n%s", again)
		}
	})
}

func TestJudge(t *testing.T) {
	run := func(perSecond float64) *figures {
		return &figures{Wanted: 9, Bound: 9, Total: 2, PerSecond: quantiles{Average: perSecond}}
	}
	gaveUp, done := &figures{Wanted: 9, Bound: 8}, &figures{Wanted: 9, Bound: 9, Total: 1}
	other := func(f *figures) []result { return []result{{row: row{name: "other"}, ours: f}} }
	tests := map[string]struct {
		aim                   aim
		upstream, ours, calls *figures
		all                   []result
		want                  string
	}{
		"ratio reached":                         {aim: aim{ratio: 0.98}, upstream: run(100), ours: run(98), want: "≥ 0.98×: met"},
		"ratio not reached":                     {aim: aim{ratio: 0.98}, upstream: run(100), ours: run(97), want: "≥ 0.98×: missed"},
		"ratio to one that did not finish":      {aim: aim{ratio: 2}, upstream: gaveUp, ours: run(97), want: "≥ 2×"},
		"ratio of one that did not finish":      {aim: aim{ratio: 2}, upstream: run(97), ours: gaveUp, want: "≥ 2×: missed"},
		"ratio, of one that left no figures":    {aim: aim{ratio: 2}, upstream: run(9), ours: &figures{}, want: "≥ 2×: missed"},
		"near the calls":                        {aim: aim{calls: 2}, upstream: gaveUp, ours: run(0), calls: done, want: "≤ 2× the calls, 2.00×: met"},
		"not near the calls":                    {aim: aim{calls: 1.5}, upstream: gaveUp, ours: run(0), calls: done, want: "≤ 1.5× the calls, 2.00×: missed"},
		"calls that failed":                     {aim: aim{calls: 1.5}, upstream: gaveUp, ours: run(0), calls: gaveUp, want: "≤ 1.5× the calls"},
		"near the calls, and it did not finish": {aim: aim{calls: 2}, upstream: gaveUp, ours: gaveUp, calls: done, want: "≤ 2× the calls: missed"},
		"beside another row":                    {aim: aim{ratio: 0.9, of: "other"}, upstream: run(9), ours: run(90), all: other(run(100)), want: "≥ 0.9× other, 0.90×: met"},
		"below another row":                     {aim: aim{ratio: 0.9, of: "other"}, upstream: run(9), ours: run(80), all: other(run(100)), want: "≥ 0.9× other, 0.80×: missed"},
		"beside a row that was not run":         {aim: aim{ratio: 0.9, of: "other"}, upstream: run(9), ours: run(80), want: "≥ 0.9× other"},
		"beside a row that did not finish":      {aim: aim{ratio: 0.9, of: "other"}, upstream: run(9), ours: run(80), all: other(gaveUp), want: "≥ 0.9× other"},
		"to finish is enough":                   {upstream: gaveUp, ours: run(0), want: "finishes: met"},
		"to finish, and it did not":             {upstream: run(0), ours: gaveUp, want: "finishes: missed"},
		"to finish, and it left no figures":     {upstream: run(0), ours: &figures{}, want: "finishes: missed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := result{row: row{aim: test.aim}, upstream: test.upstream, ours: test.ours, calls: test.calls}
			if got := r.judge(test.all); got != test.want {
				t.Errorf("judge = %q, want %q", got, test.want)
			}
		})
	}
}

func TestSplitDocument(t *testing.T) {
	doc := "before\n" + beginMark + "\nold\n" + endMark + "\nafter\n"
	before, old, after, err := splitDocument(doc)
	if err != nil {
		t.Fatal(err)
	}
	if got := before + old + after; got != doc {
		t.Errorf("the parts make up\n%s\nwant\n%s", got, doc)
	}
	if old != "old\n" {
		t.Errorf("table %q, want %q", old, "old\n")
	}
	if _, _, _, err := splitDocument("nothing marked"); err == nil {
		t.Error("a document without marks was taken")
	}
}
