package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/klog/v2"
)

// TestSilence: what the scheduler's library logs is nowhere to be seen, errors neither. It runs by itself: standard error is the process's.
func TestSilence(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = file
	Silence()
	klog.ErrorS(errors.New("context canceled"), "Unexpected error when reading response body")
	klog.Flush()
	os.Stderr = before
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file.Name()); err != nil || len(text) > 0 {
		t.Errorf("standard error has %q, error %v", text, err)
	}
}

// TestRuleIn: the rule stands in the message that a victim is told.
func TestRuleIn(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"preempted by PodGroup default/urgent (priority 1000): LowerPriority, the victim's priority is 10":                          "LowerPriority",
		"preempted by Pod a/b (priority 1): Reclaim, the victim's priority is 10; queue team-a takes back what team-b has borrowed": "Reclaim",
		"reprieve-scheduler: preempting to accommodate a higher priority pod":                                                       "",
		"": "",
	} {
		if got := ruleIn(message); got != want {
			t.Errorf("in %q the rule is %q, want %q", message, got, want)
		}
	}
}
