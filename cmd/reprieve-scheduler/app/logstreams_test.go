package app

import (
	"strings"
	"testing"

	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// TestLogOfUntrustedText checks that the log escapes control characters in text from users. It does
// not run in parallel, because klog has one log for the process.
func TestLogOfUntrustedText(t *testing.T) {
	if err := logsapi.ResetForTest(nil); err != nil {
		t.Fatal(err)
	}
	defer klog.ClearLogger()
	var out strings.Builder
	if err := logsapi.ValidateAndApplyWithOptions(logsapi.NewLoggingConfiguration(), logStreams(&out, &out), nil); err != nil {
		t.Fatal(err)
	}
	klog.InfoS("A message", "value", "two\nlines\x1b[2J\u202e")
	klog.Flush()
	if text := out.String(); strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, `\u001b[2J`) {
		t.Errorf("the log has %q", text)
	}
}
