package app

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestSilence checks that the log lines of the scheduler's library do not appear, not even errors.
// The test is not parallel, because it replaces the standard error of the process.
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

// TestPaintedTable checks that the terminal sequences of colors do not count in the width of a
// column.
func TestPaintedTable(t *testing.T) {
	t.Parallel()
	a := &asking{coloured: true}
	var painted, plain strings.Builder
	rows := func(paint func(colour, text string) string) [][]string {
		return [][]string{{"NAME", "OUTCOME", "NODES"}, {"  a", paint(bad, "no"), "2 nodes"}, {"no", paint(good, "Infeasible"), ""}, {"b", "", paint(fair, "no")}, {"two\nlines", "and\ta tab\f", "n"}}
	}
	if err := errors.Join(table(&painted, rows(a.paint)), table(&plain, rows((&asking{}).paint))); err != nil {
		t.Fatal(err)
	}
	if got := unpainted(painted.String()); got != plain.String() {
		t.Errorf("without colours it is\n%s, want\n%s", got, plain.String())
	}
	if want := a.paint(bad, "no") + strings.Repeat(" ", len("Infeasible")-len("no")+3) + "2 nodes\n"; !strings.Contains(painted.String(), want) {
		t.Errorf("it is %q, want %q in it", painted.String(), want)
	}
}

// TestIsPodOf checks that isPodOf accepts pods of a Job only. Other pods may have names that begin
// with the name of the Job.
func TestIsPodOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"train-x7k2p": true, "train-0-x7k2p": true, "train-12-x7k2p": true,
		"train": false, "train-": false, "train-eval-x7k2p": false, "train-0": false, "train-server-7d9f8b6c5d-x7k2p": false, "train-x7k2p-x7k2p": false, "trainer-x7k2p": false,
	} {
		if got := isPodOf("train", name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

// TestWordsToVictims checks that the preemptor, the rule and the PodGroup can be read from the
// message on a victim.
func TestWordsToVictims(t *testing.T) {
	t.Parallel()
	byGroup := "preempted by PodGroup default/urgent (priority 1000): LowerPriority, the victim's priority is 10"
	for message, want := range map[string][3]string{
		byGroup: {"podgroup default/urgent", "LowerPriority"},
		core.ToldMember(byGroup, "default", "batch"): {"podgroup default/urgent", "LowerPriority", "podgroup default/batch"},
		"preempted by Pod a/b (priority 1): Reclaim, the victim's priority is 10; queue team-a takes back what team-b has borrowed": {"pod a/b", "Reclaim"},
		"reprieve-scheduler: preempting to accommodate a higher priority pod":                                                       {},
		"": {},
	} {
		if got := [3]string{preemptorIn(message), ruleIn(message), groupIn(message)}; got != want {
			t.Errorf("%q is read as %q, want %q", message, got, want)
		}
	}
}

// TestOnceEach checks that a preemption with several sources appears once. It also checks that pods
// that were evicted with their PodGroup do not appear.
func TestOnceEach(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }
	pod := func(minute int, group, source string) happening {
		return happening{Time: at(minute), Victim: "pod default/p", Preemptor: "pod default/urgent", Source: source, group: group}
	}
	group := happening{Time: at(0), Victim: "podgroup default/g", Preemptor: "pod default/urgent", Source: "status"}
	for name, c := range map[string]struct {
		told []happening
		want int
	}{
		"a pod, by its event and its condition":   {told: []happening{pod(0, "", "event"), pod(0, "", "status")}, want: 1},
		"a pod, twice":                            {told: []happening{pod(9, "", "event"), pod(0, "", "event")}, want: 2},
		"a pod and a group that goes":             {told: []happening{pod(0, "", "event"), group}, want: 2},
		"a pod with its group":                    {told: []happening{pod(0, "podgroup default/g", "event"), group}, want: 1},
		"a pod of a group of which nothing tells": {told: []happening{pod(0, "podgroup default/g", "event")}, want: 1},
		"a pod of a group of which but an event tells": {
			told: []happening{pod(0, "podgroup default/g", "status"), {Time: at(0), Victim: "podgroup default/g", Preemptor: "pod default/urgent", Source: "event"}}, want: 2,
		},
	} {
		if got := onceEach(c.told); len(got) != c.want {
			t.Errorf("%s: %d, want %d: %+v", name, len(got), c.want, got)
		}
	}
}

// TestTrust checks which of several sources about one preemption applies: the decision log before a
// status, and a status before an event.
func TestTrust(t *testing.T) {
	t.Parallel()
	tell := func(source string, second int) happening {
		return happening{
			Time: time.Date(2026, 1, 1, 12, 0, second, 0, time.UTC), Victim: "pod default/p", Preemptor: "pod default/urgent",
			Source: source, Rule: "of " + source, Message: "by " + source,
		}
	}
	for name, c := range map[string]struct {
		told []happening
		want happening
	}{
		"an event, later than a status":      {[]happening{tell(sourceEvent, 9), tell(sourceStatus, 1)}, tell(sourceStatus, 1)},
		"a status, later than the record":    {[]happening{tell(sourceStatus, 9), tell(sourceRecord, 1)}, tell(sourceRecord, 1)},
		"all of them, the record in between": {[]happening{tell(sourceEvent, 9), tell(sourceRecord, 5), tell(sourceStatus, 1)}, tell(sourceRecord, 5)},
		"an event alone":                     {[]happening{tell(sourceEvent, 9)}, tell(sourceEvent, 9)},
	} {
		if got := onceEach(c.told); len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
