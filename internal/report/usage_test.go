package report_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/internal/report"
)

// TestUsage checks that the usage of each resource is in the order of the queues, with -1 for
// moments when a queue did not exist. Without samples, the report must have the reason.
func TestUsage(t *testing.T) {
	t.Parallel()
	stands := func(gpus, quota float64) report.QueueState {
		return report.QueueState{
			Used: map[string]float64{"nvidia.com/gpu": gpus, "cpu": gpus, "pods": 1}, Quota: map[string]float64{"nvidia.com/gpu": quota, "cpu": 1},
			FairShare: map[string]float64{"nvidia.com/gpu": 3},
		}
	}
	made := report.Build(report.Input{
		Queues: []report.Queue{{Name: "org"}, {Name: "team", Parent: "org"}},
		Usage: []report.Sample{
			{At: noon.Add(time.Minute), Queues: map[string]report.QueueState{"org": stands(5, 4), "team": stands(5, 2), "gone": stands(0, 0)}},
			{At: noon, Queues: map[string]report.QueueState{"org": stands(1, 4)}},
		},
	})
	want := report.Usage{Resource: "nvidia.com/gpu", At: []int64{noon.UnixMilli(), noon.Add(time.Minute).UnixMilli()}, Queues: []report.QueueUsage{
		{Used: []float64{-1, 0}, Quota: []float64{-1, 0}, Share: []float64{-1, 3}},
		{Used: []float64{1, 5}, Quota: []float64{4, 4}, Share: []float64{3, 3}},
		{Used: []float64{-1, 5}, Quota: []float64{-1, 2}, Share: []float64{-1, 3}},
	}}
	if len(made.Usage) != 2 || made.Usage[1].Resource != "cpu" {
		t.Fatalf("there are %d resources: %+v", len(made.Usage), made.Usage)
	}
	if diff := cmp.Diff(want, made.Usage[0]); diff != "" {
		t.Error(diff)
	}
	none := report.Build(report.Input{NoUsage: "nothing tells"})
	if len(none.Usage) != 0 || none.Usage == nil || none.NoUsage != "nothing tells" {
		t.Errorf("without samples there is %+v, %q", none.Usage, none.NoUsage)
	}
}

// TestUsageWithoutQuota checks that the report has each resource in use if there is no quota above
// 0.
func TestUsageWithoutQuota(t *testing.T) {
	t.Parallel()
	used := map[string]float64{"nvidia.com/gpu": 1, "cpu": 2, "memory": 0}
	for name, quota := range map[string]map[string]float64{"no quotas": nil, "a quota of 0": {"nvidia.com/gpu": 0, "memory": 0}} {
		made := report.Build(report.Input{Usage: []report.Sample{{At: noon, Queues: map[string]report.QueueState{"team": {Used: used, Quota: quota}}}}})
		var got []string
		for _, u := range made.Usage {
			got = append(got, u.Resource)
		}
		if diff := cmp.Diff([]string{"nvidia.com/gpu", "cpu"}, got); diff != "" {
			t.Errorf("%s: resources (-want +got):\n%s", name, diff)
		}
	}
}
