package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

const (
	enabled  = "multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}"
	sorted   = "queueSort: {enabled: [{name: ReprievePrioritySort}], disabled: [{name: PrioritySort}]}"
	inFront  = "preFilter: {enabled: [{name: Reprieve}]}"
	allOfIt  = enabled + ", " + sorted + ", " + inFront
	upstream = "multiPoint: {enabled: [{name: Reprieve}]}"
)

// TestProfiles has what is refused before anything is started, and what is only said.
func TestProfiles(t *testing.T) {
	t.Parallel()
	const (
		refused = "profile it: profiles[1].plugins.multiPoint leaves DefaultPreemption on, which would take what Reprieve protects; " +
			"write disabled: [{name: DefaultPreemption}] there"
		order = "own priorities"
		first = "come first"
	)
	for name, c := range map[string]struct {
		plugins string
		want    string
		// wantSaid are words of the log.
		wantSaid []string
	}{
		"as is right":                       {plugins: allOfIt},
		"without Reprieve":                  {plugins: "multiPoint: {disabled: [{name: VolumeZone}]}"},
		"beside upstream's preemption":      {plugins: upstream, want: refused},
		"in postFilter, beside upstream's":  {plugins: "postFilter: {enabled: [{name: Reprieve}]}", want: refused},
		"upstream's off in postFilter":      {plugins: upstream + ", postFilter: {disabled: [{name: DefaultPreemption}]}", wantSaid: []string{order, first}},
		"all off in postFilter but itself":  {plugins: upstream + ", postFilter: {enabled: [{name: Reprieve}], disabled: [{name: '*'}]}", wantSaid: []string{order, first}},
		"upstream's on again in postFilter": {plugins: enabled + ", postFilter: {enabled: [{name: DefaultPreemption}]}", want: "profiles[1].plugins.postFilter leaves DefaultPreemption on"},
		"with upstream's order":             {plugins: enabled + ", " + inFront, wantSaid: []string{order}},
		"behind others":                     {plugins: enabled + ", " + sorted, wantSaid: []string{first}},
		"behind one that is put in front":   {plugins: enabled + ", " + sorted + ", preFilter: {enabled: [{name: NodeAffinity}, {name: Reprieve}]}", wantSaid: []string{first}},
		"in front of all there are":         {plugins: enabled + ", " + sorted + ", preFilter: {enabled: [{name: Reprieve}, {name: NodeAffinity}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			// The queue's order is the same for all profiles.
			other := ""
			if strings.Contains(c.plugins, sorted) {
				other = sorted
			}
			text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
				fmt.Sprintf("profiles: [{schedulerName: other, plugins: {%s}}, {schedulerName: it, plugins: {%s}}]\n", other, c.plugins)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			opts := NewOptions()
			opts.ConfigFile = file
			cfg, err := effectiveConfig(t.Context(), opts)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want one line with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			warnOfProfiles(logger, cfg)
			requireSaid(t, logger, c.wantSaid)
		})
	}
}

func requireSaid(t *testing.T, logger klog.Logger, want []string) {
	t.Helper()
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatal("The log is not kept")
	}
	said := sink.GetBuffer().String()
	if n := strings.Count(said, "INFO"); n != len(want) {
		t.Errorf("%d lines, want %d:\n%s", n, len(want), said)
	}
	for _, words := range want {
		if !strings.Contains(said, words) {
			t.Errorf("No line has %q:\n%s", words, said)
		}
	}
}

// TestDefaultProfile is right itself.
func TestDefaultProfile(t *testing.T) {
	t.Parallel()
	cfg, err := effectiveConfig(t.Context(), NewOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := checkProfiles(cfg); err != nil {
		t.Error(err)
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	warnOfProfiles(logger, cfg)
	requireSaid(t, logger, nil)
}
