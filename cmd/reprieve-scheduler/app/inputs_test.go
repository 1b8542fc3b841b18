package app

import (
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
)

// TestInputsFlag checks the valid values of --decision-log-inputs. A value other than none requires
// a decision log.
func TestInputsFlag(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, inputs, want string }{
		"by default":     {path: "log", inputs: "none"},
		"without a log":  {inputs: "none"},
		"redacted":       {path: "log", inputs: "redacted"},
		"in full":        {path: "-", inputs: "full"},
		"for no log":     {inputs: "full", want: "--decision-log-inputs full goes with --decision-log, which is not set"},
		"something else": {path: "log", inputs: "some", want: `--decision-log-inputs is "some"; it is one of none, redacted, full`},
		"nothing":        {path: "log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := DecisionLogOptions{Path: c.path, MaxSize: 1, Inputs: c.inputs}
			err := o.validate()
			if got := ""; err != nil && err.Error() != c.want || err == nil && c.want != got {
				t.Errorf("It says %v, want %q", err, c.want)
			}
		})
	}
	if got := NewOptions().DecisionLog.Inputs; got != withoutInputs {
		t.Errorf("By default the log has %q", got)
	}
}

// TestNoRecorder checks that there is no recorder by default, and that the interface for the
// plugins is then nil.
func TestNoRecorder(t *testing.T) {
	t.Parallel()
	opts := NewOptions()
	recorder, err := newRecorder(opts, "p", decisionlog.New(decisionlog.Options{}), nil, klog.Background())
	if recorder != nil || err != nil || schedulerRecorder(recorder) != nil {
		t.Errorf("There is %v, %v", recorder, err)
	}
}

// TestConfigurationText checks that the decision log gets the text of the scheduler's
// configuration.
func TestConfigurationText(t *testing.T) {
	t.Parallel()
	opts := NewOptions()
	if text, err := configurationText(opts); text != "" || err != nil {
		t.Errorf("By default it is %q, %v", text, err)
	}
	opts.SchedulerName = "other"
	if text, err := configurationText(opts); err != nil || !strings.Contains(text, "schedulerName: other") || !strings.Contains(text, "kind: KubeSchedulerConfiguration") {
		t.Errorf("With another name it is %q, %v", text, err)
	}
	opts.ConfigFile = "no-such-file"
	if _, err := configurationText(opts); err == nil {
		t.Error("A file that there is not is read")
	}
}
