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
		{name: "gang", title: "a gang", gang: true, aim: aim{seconds: 2}},
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
			upstream: &figures{Wanted: 100, Bound: 100, Total: 18, Waits: quantiles{16, 17, 17.5, 18}},
			ours:     &figures{Wanted: 100, Bound: 100, Total: 2.25, Waits: quantiles{1, 1.1, 1.2, 2.2}},
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

| Workload | Scheduler | Whole gang | p50 | p90 | p99 | Ratio | Aim |
| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| a gang | kube-scheduler | 18.0 s | 17.0 s | 17.5 s | 18.0 s |  |  |
| a gang | Reprieve | 2.25 s | 1.10 s | 1.20 s | 2.20 s | 0.12× | < 2 s: missed |
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
	gaveUp := &figures{Wanted: 9, Bound: 8}
	tests := map[string]struct {
		aim            aim
		upstream, ours *figures
		want           string
	}{
		"ratio reached":                      {aim{ratio: 0.98}, run(100), run(98), "≥ 0.98×: met"},
		"ratio not reached":                  {aim{ratio: 0.98}, run(100), run(97), "≥ 0.98×: missed"},
		"ratio to one that did not finish":   {aim{ratio: 2}, gaveUp, run(97), "≥ 2×"},
		"ratio of one that did not finish":   {aim{ratio: 2}, run(97), gaveUp, "≥ 2×: missed"},
		"time kept":                          {aim{seconds: 2.5}, gaveUp, run(0), "< 2.5 s: met"},
		"time not kept":                      {aim{seconds: 2}, gaveUp, run(0), "< 2 s: missed"},
		"to finish is enough":                {aim{}, gaveUp, run(0), "finishes: met"},
		"to finish, and it did not":          {aim{}, run(0), gaveUp, "finishes: missed"},
		"to finish, and it left no figures":  {aim{}, run(0), &figures{}, "finishes: missed"},
		"time, of one that left no figures":  {aim{seconds: 2}, run(0), &figures{}, "< 2 s: missed"},
		"ratio, of one that left no figures": {aim{ratio: 2}, run(9), &figures{}, "≥ 2×: missed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := row{aim: test.aim}
			if got := r.judge(test.upstream, test.ours); got != test.want {
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
