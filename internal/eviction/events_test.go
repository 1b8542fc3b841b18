package eviction

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// TestNotesAreNotTooLong checks that notes with the longest possible names are short enough for the
// API.
func TestNotesAreNotTooLong(t *testing.T) {
	t.Parallel()
	d := &core.Decision{Message: "gang of 2 fits", Preemptor: core.Preemptor{Namespace: "ns", Name: "urgent"}}
	for range 5 {
		d.Victims = append(d.Victims, core.Victim{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("v", 253)})
	}
	recorder := events.NewFakeRecorder(10)
	recorded := &preemptionEvents{recorder: recorder}
	recorded.success(d)
	recorded.failure(d, errors.New(strings.Repeat("é", longestNote)))
	for range 2 {
		// The recorder writes the type, the reason and the note.
		note := strings.SplitN(<-recorder.Events, " ", 3)[2]
		if len(note) > longestNote || !strings.HasSuffix(note, " ...") || !utf8.ValidString(note) {
			t.Errorf("A note has %d bytes, want %d at most, and that it shows: %q", len(note), longestNote, note)
		}
	}
}

// keys is a recorder that keeps the fields that distinguish events.
type keys struct{ all []string }

func (k *keys) Eventf(_, related runtime.Object, _, reason, action, _ string, _ ...any) {
	of := ""
	if o, ok := related.(metav1.Object); ok {
		of = o.GetName()
	}
	k.all = append(k.all, reason+"/"+action+" "+of)
}

// TestEventsAreToldApart checks that different victims and different errors make separate events.
// If they were counted as one event, the event would keep the first text.
func TestEventsAreToldApart(t *testing.T) {
	t.Parallel()
	var told keys
	e := &preemptionEvents{recorder: &told}
	for _, v := range []core.Victim{victim("a"), victim("g", "g-0")} {
		e.success(&core.Decision{Victims: []core.Victim{v}})
	}
	e.success(&core.Decision{})
	for _, err := range []error{fmt.Errorf("evict pod: %w", errForbidden), errUnasked, errLost} {
		e.failure(&core.Decision{}, err)
	}
	want := []string{
		"Preempting/Preempting a", "Preempting/Preempting g", "Preempting/Preempting ",
		"PreemptionFailed/Forbidden ", "PreemptionFailed/InternalError ", "PreemptionFailed/Preempting ",
	}
	if !slices.Equal(told.all, want) {
		t.Errorf("told %q, want %q", told.all, want)
	}
}

// TestEvictionIsToldByTheProfile checks that events are recorded with the recorder of the
// preemptor's profile.
func TestEvictionIsToldByTheProfile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failing string
		// want is the expected number of events.
		want int
	}{
		"it works":              {want: 4},
		"it fails at the start": {failing: "list", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			profiles := map[string]*events.FakeRecorder{"main": events.NewFakeRecorder(10), "batch": events.NewFakeRecorder(10)}
			byProfile := WithProfileRecorders(func(profile string) events.EventRecorder { return profiles[profile] })
			b := newBenchWith(t, []Option{byProfile}, append(whole("g"), pod("urgent-0"))...)
			if c.failing != "" {
				b.failing(errForbidden, c.failing)
			}
			if err := b.evict(order(victim("g", "g-0", "g-1"))).Err; (err != nil) != (c.failing != "") {
				t.Fatalf("Failed with %v", err)
			}
			if got, others := len(profiles["main"].Events), b.recorded(); got != c.want || len(others)+len(profiles["batch"].Events) > 0 {
				t.Errorf("%d events in the profile's name, want %d; others are %q", got, c.want, others)
			}
		})
	}
}

// TestEventsArePaced checks that the events of many victims are spread over time, and that the
// outcome does not wait for them.
func TestEventsArePaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const victims = eventBurst + 2*eventRate
		var objects []client.Object
		var going []core.Victim
		for i := range victims {
			name := fmt.Sprint("v-", i)
			objects, going = append(objects, pod(name)), append(going, victim(name))
		}
		b := newBench(t, append(objects, pod("urgent-0"))...)
		start := time.Now()
		got := <-b.executor.Evict(t.Context(), order(going...), b.scheduler)
		if err := got.Err; err != nil || time.Since(start) != 0 {
			t.Errorf("Done after %v: %v", time.Since(start), err)
		}
		synctest.Wait()
		// The preemptor's event does not wait for the events of the victims.
		if got := len(b.recorded()); got != eventBurst+1 {
			t.Errorf("%d events at first", got)
		}
		b.executor.Wait()
		if got, took := len(b.recorded()), time.Since(start); got != victims-eventBurst || took.Round(time.Second) != 2*time.Second {
			t.Errorf("%d events in the %v after", got, took)
		}
	})
}
