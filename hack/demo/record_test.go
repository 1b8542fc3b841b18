package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWaitingIn checks that waitingIn and the report of kubectl reprieve name the same waiting
// workloads for a decision log.
func TestWaitingIn(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", "internal", "decisionlog", "testdata", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, c := range map[string]struct {
		log  string
		want []string
	}{
		"room is reserved": {log: read("waits"), want: []string{"prod/urgent"}},
		"and it was bound": {log: read("waits") + read("wait-end")},
	} {
		file := filepath.Join(t.TempDir(), "decisions.jsonl")
		if err := os.WriteFile(file, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := waitingIn(file)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q waits, want %q, %v", name, got, c.want, err)
		}
	}
}
