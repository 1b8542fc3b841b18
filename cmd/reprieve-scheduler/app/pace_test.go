package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2/ktesting"
)

// emptyConfig is a configuration file without any settings.
const emptyConfig = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// optionsOf returns the options for a command line. args are flags of the flag set named set. file
// is the text of the configuration file; "" for none.
func optionsOf(t *testing.T, set string, args []string, file string) *Options {
	t.Helper()
	opts := NewOptions()
	if err := opts.Flags.FlagSet(set).Parse(args); err != nil {
		t.Fatal(err)
	}
	if file != "" {
		opts.ConfigFile = filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(opts.ConfigFile, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return opts
}

// TestIsRateConfigured checks that the library's default rate does not count as configured.
func TestIsRateConfigured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		file string
		want bool
	}{
		"nothing said":                 {},
		"a flag":                       {args: []string{"--kube-api-qps=50"}, want: true},
		"the other flag":               {args: []string{"--kube-api-burst=7"}, want: true},
		"a file without":               {file: emptyConfig},
		"a file with another field":    {file: emptyConfig + "clientConnection: {kubeconfig: k}\n"},
		"a file with a rate":           {file: emptyConfig + "clientConnection: {qps: 50}\n", want: true},
		"a file with a burst":          {file: emptyConfig + "clientConnection: {burst: 100}\n", want: true},
		"a file that bounds nothing":   {file: emptyConfig + "clientConnection: {qps: -1}\n", want: true},
		"a flag that is not looked at": {args: []string{"--kube-api-qps=50"}, file: emptyConfig},
		"a rate of 0 in a file":        {file: emptyConfig + "clientConnection: {qps: 0, burst: 0}\n"},
		"a flag that says 0":           {args: []string{"--kube-api-qps=0"}},
		"a file that is JSON":          {file: `{"clientConnection": {"qps": 5}}`, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := optionsOf(t, "deprecated", c.args, c.file)
			if got, err := isRateConfigured(opts); err != nil || got != c.want {
				t.Errorf("It is %t (%v), want %t", got, err, c.want)
			}
		})
	}
}

// TestFlagThatIsNotRead checks that the log names each flag that has no effect beside a
// configuration file.
func TestFlagThatIsNotRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args     []string
		file     string
		wantSaid []string
	}{
		"beside a file":  {args: []string{"--kube-api-qps=50"}, file: emptyConfig, wantSaid: []string{`flag="--kube-api-qps" field="clientConnection.qps"`}},
		"profiling":      {args: []string{"--profiling=false"}, file: emptyConfig, wantSaid: []string{`flag="--profiling" field="enableProfiling"`}},
		"without a file": {args: []string{"--kube-api-qps=50"}},
		"a file alone":   {file: emptyConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			warnOfFlags(logger, optionsOf(t, "deprecated", c.args, c.file))
			requireSaid(t, logger, c.wantSaid)
		})
	}
}

// TestHelpShowsWhatHolds checks that the help shows Reprieve's defaults where they differ from
// kube-scheduler's.
func TestHelpShowsWhatHolds(t *testing.T) {
	t.Parallel()
	help := NewCommand().UsageString()
	for flag, want := range map[string]string{
		"--kube-api-qps ":              "as many calls as the API server can take.",
		"--kube-api-burst ":            "as many calls as the API server can take.",
		"--leader-elect-retry-period ": "(default 500ms)",
		"--leader-elect-resource-name": `(default "reprieve-scheduler")`,
	} {
		_, text, ok := strings.Cut(help, flag)
		text, _, _ = strings.Cut(text, "\n      --")
		text, _, _ = strings.Cut(text, "\n\n")
		if text = strings.Join(strings.Fields(text), " "); !ok || !strings.HasSuffix(text, want) {
			t.Errorf("the help of %s is %q, want it to end with %q", flag, text, want)
		}
	}
}
