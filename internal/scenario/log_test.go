package scenario_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	schedulerapp "github.com/reprieve-dev/reprieve/cmd/reprieve-scheduler/app"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/replay"
	"github.com/reprieve-dev/reprieve/internal/scenario"
)

// diary is a decision log that a test writes.
type diary struct {
	*testing.T
	text   bytes.Buffer
	number uint64
}

// line writes a line of inputs. Its time is a number of hours after noon. whole is the whole
// cluster, or nil for a line with changes. gone names the deleted pods.
func (d *diary) line(hours int, whole *inventory.Inventory, gone []string, pods ...*corev1.Pod) {
	d.Helper()
	in := decisionlog.Inputs{
		Schema: decisionlog.InputsSchema, Time: noon.Add(time.Duration(hours) * time.Hour), Process: "p", From: d.number, Number: d.number + 1,
		Objects: make(map[string][]json.RawMessage),
	}
	d.number++
	if whole != nil {
		in.From, in.Whole = 0, &decisionlog.Whole{}
		for _, kind := range inventory.Kinds() {
			name := inventory.NameOf(kind.GroupVersionResource)
			for _, object := range whole.Objects(name) {
				in.Objects[name] = append(in.Objects[name], object.Raw)
			}
		}
	}
	if len(gone) > 0 {
		in.Gone = map[string][]string{inventory.Pods: gone}
	}
	for _, pod := range pods {
		raw, err := json.Marshal(pod)
		if err != nil {
			d.Fatal(err)
		}
		in.Objects[inventory.Pods] = append(in.Objects[inventory.Pods], raw)
	}
	if err := decisionlog.EncodeInputs(&d.text, &in); err != nil {
		d.Fatal(err)
	}
}

// evicts writes a decision that evicts the pod with the UID.
func (d *diary) evicts(uid string) {
	d.Helper()
	err := decisionlog.Encode(&d.text, &decisionlog.Record{
		Schema: decisionlog.Schema, Process: "p", Sequence: 1, Result: decisionlog.Result{State: decisionlog.CarriedOut},
		Decision: core.Decision{Outcome: core.Preempts, Victims: []core.Victim{{UID: uid, Pods: []core.VictimPod{{UID: uid}}}}},
	})
	if err != nil {
		d.Fatal(err)
	}
}

// work returns a description of the work in the input that FromLog creates from the diary.
func (d *diary) work() string {
	d.Helper()
	var log replay.Log
	if err := log.Read("log", &d.text); err != nil {
		d.Fatal(err)
	}
	load := func(ctx context.Context, _ *inventory.Inventory) (*config.KubeSchedulerConfiguration, error) {
		return schedulerapp.LoadConfig(ctx, "")
	}
	in, _, err := scenario.FromLog(d.Context(), &log, load, scenario.Assumptions{Lasts: 24 * time.Hour, Runs: 30 * time.Minute})
	if err != nil {
		d.Fatal(err)
	}
	var out []string
	for i := range in.Work {
		w := &in.Work[i]
		out = append(out, fmt.Sprintf("%s of %d at %s for %s", w.Name, len(w.Requests), w.Submitted.Truncate(time.Second), w.Runs))
	}
	return strings.Join(out, "; ")
}

func came(hours int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(hours) * time.Hour))
		if p.Status.StartTime != nil {
			p.Status.StartTime = &metav1.Time{Time: p.CreationTimestamp.Time}
		}
	}
}

func uid(uid types.UID) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = uid } }

// TestFromLog checks that work arrives in the simulation at its time in the log, and that it runs
// as long as in the log.
func TestFromLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write func(d *diary)
		want  string
	}{
		"work that ran at the start, and ended": {
			write: func(d *diary) {
				d.line(0, stock(t, podNamed("p", "a")), nil)
				d.line(3, nil, []string{"ns/p"})
			},
			want: "p of 1 at 0s for 3h0m0s",
		},
		"work that came later": {
			write: func(d *diary) {
				d.line(0, stock(t), nil)
				d.line(2, nil, nil, podNamed("p", "", came(1)))
				d.line(3, nil, nil, podNamed("p", "b", came(3)))
				d.line(5, nil, []string{"ns/p"})
			},
			want: "p of 1 at 1h0m0s for 2h0m0s",
		},
		"work that still runs at the end goes on for as long": {
			write: func(d *diary) {
				d.line(0, stock(t), nil)
				d.line(1, nil, nil, podNamed("p", "b", came(1)))
				d.line(4, nil, nil)
			},
			want: "p of 1 at 1h0m0s for 6h0m0s",
		},
		"a service does not end": {
			write: func(d *diary) {
				d.line(0, stock(t), nil)
				d.line(1, nil, nil, podNamed("p", "b", came(1), of("ReplicaSet")))
				d.line(4, nil, nil)
			},
			want: "p of 1 at 1h0m0s for 24h1m0s",
		},
		"work that never ran": {
			write: func(d *diary) {
				d.line(0, stock(t), nil)
				d.line(1, nil, nil, podNamed("p", "", came(1)))
			},
			want: "p of 1 at 1h0m0s for 30m0s",
		},
		"an evicted pod and the one in its place are one": {
			write: func(d *diary) {
				d.line(0, stock(t), nil)
				d.line(1, nil, nil, podNamed("p", "b", came(1), of("Job")))
				d.evicts("p")
				d.line(2, nil, []string{"ns/p"}, podNamed("q", "", came(2), of("Job")))
				d.line(4, nil, nil, podNamed("q", "a", came(4), of("Job")))
				d.line(5, nil, []string{"ns/q"})
			},
			want: "p of 1 at 1h0m0s for 2h0m0s",
		},
		"a pod that ended and another one are two": {
			write: func(d *diary) {
				d.line(0, stock(t), nil)
				d.line(1, nil, nil, podNamed("p", "b", came(1), of("Job")))
				d.line(2, nil, []string{"ns/p"}, podNamed("q", "b", came(2), of("Job")))
				d.line(4, nil, []string{"ns/q"})
			},
			want: "p of 1 at 1h0m0s for 1h0m0s; q of 1 at 2h0m0s for 2h0m0s",
		},
		"a gang comes with the last of it": {
			write: func(d *diary) {
				d.line(0, stock(t), nil)
				d.line(2, nil, nil, podNamed("p", "", came(1), in("gang")), podNamed("q", "", came(2), in("gang")))
				d.line(3, nil, nil, podNamed("p", "a", came(3), in("gang")), podNamed("q", "b", came(3), in("gang")))
				d.line(7, nil, []string{"ns/p", "ns/q"})
			},
			want: "gang of 2 at 2h0m0s for 4h0m0s",
		},
		"another scheduler goes on": {
			write: func(d *diary) {
				d.line(0, stock(t, podNamed("p", "a")), nil)
				d.line(2, stock(t, podNamed("q", "a", came(1), uid("q"))), nil)
				d.line(3, nil, []string{"ns/q"})
			},
			want: "p of 1 at 0s for 2h0m0s; q of 1 at 1h0m0s for 2h0m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &diary{T: t}
			c.write(d)
			if got := d.work(); got != c.want {
				t.Errorf("The work is %q, want %q", got, c.want)
			}
		})
	}
	if _, _, err := scenario.FromLog(t.Context(), &replay.Log{}, nil, scenario.Assumptions{}); !errors.Is(err, scenario.ErrNoCluster) {
		t.Errorf("Of an empty log it says %v", err)
	}
}
