package app

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// TestLostWorkIsShown checks the lost work in the answers of history, why and plan. The records of
// older versions do not have the lost work.
func TestLostWorkIsShown(t *testing.T) {
	t.Parallel()
	const hour = 3600 * core.MilliDevices
	victim := core.Victim{Namespace: "ns", Name: "a", LostWork: 2 * hour}
	r := decisionlog.Record{
		Time: time.Unix(1000, 0), Decision: core.Decision{
			Outcome: core.Preempts, Victims: []core.Victim{victim}, LostWork: 7 * hour,
			BrokenGangs: []core.GangRef{{Namespace: "ns", Name: "g", LostWork: 5 * hour}, {Namespace: "ns", Name: "h"}},
		},
		Result: decisionlog.Result{State: decisionlog.CarriedOut},
	}
	old := r
	old.Decision.LostWork = 0
	var history, why, plan bytes.Buffer
	if err := showPreemptions(&history, &historyAnswer{Preemptions: byRecord([]decisionlog.Record{r, old})}, true); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(history.String(), "\n")
	if len(rows) < 3 || !strings.Contains(rows[0], "DEVICE-HOURS LOST") || !strings.Contains(rows[1], "record   2.0") || !strings.Contains(rows[2], "record   -") {
		t.Errorf("The history is\n%s", history.String())
	}
	for _, one := range []*decisionlog.Record{&r, &old} {
		c := choiceOf(one, &subject{kind: "Pod", key: types.NamespacedName{Namespace: "ns", Name: "a"}})
		showChoice(&why, &c, false)
	}
	if want := "Lost: 2.0 device-hours of its own work, 7.0 in all.\n"; why.String() != want {
		t.Errorf("The answer of why is %q, want %q", why.String(), want)
	}
	for stops, want := range map[int32]string{0: "", 1: ", stopped once before", 2: ", stopped 2 times before"} {
		if got := lossOf(&whatif.Victim{Victim: core.Victim{Stops: stops}}); got != "0 GPU-hours, 0 device-hours lost"+want {
			t.Errorf("%d stops are %q", stops, got)
		}
	}
	showBrokenGangs(&plan, &whatif.Step{BrokenGangs: r.Decision.BrokenGangs})
	if want := "  - podgroup ns/g falls below minCount: other members, 5.0 device-hours lost\n"; plan.String() != want {
		t.Errorf("The plan has %q, want %q", plan.String(), want)
	}
}
