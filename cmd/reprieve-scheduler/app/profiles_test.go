package app

import (
	"cmp"
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

// TestProfiles checks which profiles are rejected at the start, and which only cause a line in the
// log.
func TestProfiles(t *testing.T) {
	t.Parallel()
	const (
		beside = "profile it: profiles[1].plugins.multiPoint leaves DefaultPreemption on, which would take what Reprieve protects; " +
			"write disabled: [{name: DefaultPreemption}] there"
		order   = "profiles[0].plugins.queueSort does not have ReprievePrioritySort alone"
		front   = "profiles[1].plugins.preFilter does not put Reprieve first"
		nothing = "profiles[1] has neither Reprieve nor DefaultPreemption"
	)
	out := func(point string) string { return "profiles[1].plugins." + point + " leaves Reprieve out" }
	for name, c := range map[string]struct {
		// first holds the plugins of the first profile, in YAML; "" for a valid profile with
		// Reprieve.
		first, plugins string
		want           string
		// wantSaid lists parts of the expected lines in the log.
		wantSaid []string
	}{
		"as is right":                       {plugins: allOfIt},
		"without Reprieve anywhere":         {first: "multiPoint: {disabled: [{name: VolumeZone}]}", plugins: "multiPoint: {disabled: [{name: VolumeZone}]}", want: "no profile has the plugin Reprieve"},
		"beside a profile of upstream's":    {plugins: sorted, wantSaid: []string{"The profile has no Reprieve: its pods are placed one by one"}},
		"with no preemption":                {plugins: sorted + ", multiPoint: {disabled: [{name: DefaultPreemption}]}", want: nothing},
		"with none in postFilter":           {plugins: sorted + ", postFilter: {disabled: [{name: '*'}]}", want: nothing},
		"beside upstream's preemption":      {plugins: upstream + ", " + sorted + ", " + inFront, want: beside},
		"in postFilter alone":               {plugins: sorted + ", postFilter: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}", want: out("preFilter")},
		"in preFilter alone":                {plugins: sorted + ", " + inFront, want: out("filter")},
		"taken off a point":                 {plugins: allOfIt + ", permit: {disabled: [{name: Reprieve}]}", want: out("permit")},
		"taken off a point with all":        {plugins: allOfIt + ", filter: {disabled: [{name: '*'}]}", want: out("filter")},
		"upstream's off in postFilter":      {plugins: upstream + ", " + sorted + ", " + inFront + ", postFilter: {disabled: [{name: DefaultPreemption}]}"},
		"all off in postFilter but itself":  {plugins: upstream + ", " + sorted + ", " + inFront + ", postFilter: {enabled: [{name: Reprieve}], disabled: [{name: '*'}]}"},
		"upstream's on again in postFilter": {plugins: allOfIt + ", postFilter: {enabled: [{name: DefaultPreemption}]}", want: "profiles[1].plugins.postFilter leaves DefaultPreemption on"},
		"with upstream's order":             {first: enabled + ", " + inFront, plugins: enabled + ", " + inFront, want: order},
		"with both orders":                  {first: "queueSort: {enabled: [{name: ReprievePrioritySort}]}", plugins: enabled + ", " + inFront + ", queueSort: {enabled: [{name: ReprievePrioritySort}]}", want: order},
		"behind others":                     {plugins: enabled + ", " + sorted, want: front},
		"behind one that is put in front":   {plugins: enabled + ", " + sorted + ", preFilter: {enabled: [{name: NodeAffinity}, {name: Reprieve}]}", wantSaid: []string{"come first"}},
		"in front of all there are":         {plugins: enabled + ", " + sorted + ", preFilter: {enabled: [{name: Reprieve}, {name: NodeAffinity}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			other := c.first
			if other == "" {
				other = allOfIt
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

// TestArguments checks that arguments are rejected if no plugin reads them, or if Reprieve cannot
// read them.
func TestArguments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// plugins are the plugins of the profile; "" for a valid profile with Reprieve.
		plugins, config, want string
	}{
		"as is right":                 {config: "{name: Reprieve, args: {preemptMinRuntime: 1h}}"},
		"of a plugin of upstream's":   {config: "{name: NodeAffinity, args: {}}, {name: Reprieve, args: {}}"},
		"in small letters":            {config: "{name: reprieve, args: {preemptMinRuntime: 1h}}", want: `profile it: profiles[0].pluginConfig[0].name: there is no plugin "reprieve", so its args would be read by none; write the name of a plugin, such as Reprieve`},
		"of a plugin that is unknown": {config: "{name: Reprieve, args: {}}, {name: Coscheduling, args: {}}", want: `profile it: profiles[0].pluginConfig[1].name: there is no plugin "Coscheduling"`},
		"of what takes none":          {config: "{name: ReprievePrioritySort, args: {preemptMinRuntime: 1h}}", want: "profile it: profiles[0].pluginConfig[0].name: ReprievePrioritySort takes no arguments; write them in the entry of Reprieve"},
		"of a profile without it":     {plugins: sorted, config: "{name: Reprieve, args: {}}", want: "profiles[0].pluginConfig[0] has the arguments of Reprieve, which the profile does not have"},
		"an unknown field":            {config: "{name: Reprieve, args: {preemptMinRuntme: 1h}}", want: `profile it: plugin Reprieve: args: unknown field "preemptMinRuntme"`},
		"the criterion Cascade without its mode": {
			config: "{name: Reprieve, args: {victimOrder: [BrokenBudgets, HighestPriority, PrioritySum, Pods, Surplus, Cascade, StartTime]}}",
			want:   `profile it: plugin Reprieve: args: victimOrder[5]: Invalid value: "Cascade": requires cascade: Decide, which is Off`,
		},
		"a rule that cannot be":    {config: "{name: Reprieve, args: {groups: {kinds: [Jobb]}}}", want: "profile it: plugin Reprieve: args: "},
		"of one that is not aware": {config: "{name: Reprieve, args: {workloadAware: false, asynchronous: 7}}", want: "profile it: plugin Reprieve: args: asynchronous"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
				"profiles: [{schedulerName: it, plugins: {%s}, pluginConfig: [%s]}, {schedulerName: other, plugins: {%s}}]\n",
				cmp.Or(c.plugins, allOfIt), c.config, allOfIt)
			file := optionsOf(t, "misc", nil, text).ConfigFile
			if _, err := LoadRecordedConfig(t.Context(), file); err != nil {
				t.Errorf("what a scheduler has run with is refused: %v", err)
			}
			_, err := LoadConfig(t.Context(), file)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
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

// TestDefaultProfile checks that the default configuration passes all checks and causes no line in
// the log.
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
