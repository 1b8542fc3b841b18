package decisionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprieve-dev/reprieve/internal/core"
)

// named returns a record whose preemptor has the name.
func named(name string) Record {
	return Record{Time: noon, Result: Result{State: Waiting}, Decision: core.Decision{Outcome: core.Infeasible, Preemptor: core.Preemptor{Name: name}}}
}

// seen returns the sequence number, preemptor and state of each record.
func seen(records []Record) []string {
	out := make([]string, len(records))
	for i := range records {
		out[i] = fmt.Sprintf("%d %s %s", records[i].Sequence, records[i].Decision.Preemptor.Name, records[i].Result.State)
	}
	return out
}

type counts struct {
	mu                           sync.Mutex
	written, dropped, unwritable int
}

func (c *counts) Written()         { c.add(&c.written) }
func (c *counts) Dropped()         { c.add(&c.dropped) }
func (c *counts) Unwritable(error) { c.add(&c.unwritable) }

func (c *counts) add(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *counts) want(t *testing.T, written, dropped, unwritable int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written != written || c.dropped != dropped || c.unwritable != unwritable {
		t.Errorf("%d written, %d dropped, %d unwritable; want %d, %d, %d", c.written, c.dropped, c.unwritable, written, dropped, unwritable)
	}
}

// parsed parses the lines and returns their records.
func parsed(t *testing.T, lines []byte) []Record {
	t.Helper()
	var out []Record
	for line := range bytes.Lines(lines) {
		r, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func wantSeen(t *testing.T, got []Record, want ...string) {
	t.Helper()
	if !slices.Equal(seen(got), want) {
		t.Errorf("Records %q, want %q", seen(got), want)
	}
}

func nothing() []Lost { return nil }

// TestLost checks that the lost work is computed only once: when a reader asks for it, or when the
// result is known.
func TestLost(t *testing.T) {
	t.Parallel()
	for name, wants := range map[string]func(log *Log, ended func(Result)){
		"it is over":                func(_ *Log, ended func(Result)) { ended(Result{State: CarriedOut}) },
		"it is looked at under way": func(log *Log, _ func(Result)) { log.Latest() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			log := New(Options{})
			ended := log.Follow(named("a"), func() []Lost { asked++; return []Lost{{UID: "v"}} })
			if asked != 0 {
				t.Error("it is asked for at once, in the cycle")
			}
			wants(log, ended)
			if asked != 1 {
				t.Errorf("it has been asked for %d times, want once", asked)
			}
			ended(Result{State: CarriedOut})
			if got := log.Latest()[0].Lost; len(got) != 1 || got[0].UID != "v" || asked != 1 {
				t.Errorf("%v is lost, asked for %d times", got, asked)
			}
		})
	}
}

func TestLatest(t *testing.T) {
	t.Parallel()
	log := New(Options{Kept: 3})
	wantSeen(t, log.Latest())
	log.Record(named("a"))
	ended := log.Follow(named("b"), nothing)
	wantSeen(t, log.Latest(), "1 a Waiting", "2 b UnderWay")
	log.Record(named("c"))
	ended(Result{State: CarriedOut, Time: noon})
	log.Record(named("d"))
	wantSeen(t, log.Latest(), "2 b CarriedOut", "3 c Waiting", "4 d Waiting")
	log.Record(named("e"))
	log.Record(named("f"))
	wantSeen(t, log.Latest(), "4 d Waiting", "5 e Waiting", "6 f Waiting")
	// Report the result of a record that was dropped from memory. The result must not change other
	// records.
	ended = log.Follow(named("g"), nothing)
	for _, name := range []string{"h", "i", "j"} {
		log.Record(named(name))
	}
	ended(Result{State: Failed})
	wantSeen(t, log.Latest(), "8 h Waiting", "9 i Waiting", "10 j Waiting")
}

// TestMembersAreNotKept checks that a record in memory has only the fields that are in its JSON.
func TestMembersAreNotKept(t *testing.T) {
	t.Parallel()
	log := New(Options{})
	gang := urgent(16)
	gang.Domain = &core.TopologyLevel{Key: "zone", Of: slices.Repeat([]string{"z"}, len(small().Nodes))}
	gang.Preferred = []core.TopologyLevel{{Key: "rack", Of: slices.Repeat([]string{"r"}, len(small().Nodes))}}
	log.Record(made(t, small(), gang))
	if gang.Domain.Of == nil || gang.Preferred[0].Of == nil {
		t.Error("Recording changed the preemptor")
	}
	if p := log.Latest()[0].Decision.Preemptor; p.Classes != nil || p.Nominated != nil || p.Limits != nil || p.Domain.Of != nil || p.Preferred[0].Of != nil {
		t.Errorf("The record keeps %+v", p)
	}
}

// TestRun checks that Run writes records as they arrive. When its context ends, Run writes the
// remaining records, including decisions under way.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		observed := &counts{}
		log := New(Options{Process: "p", Out: &out, Observer: observed})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { log.Run(ctx) })
		late, later := log.Follow(named("late"), nothing), log.Follow(named("later"), nothing)
		log.Record(named("now"))
		synctest.Wait()
		wantSeen(t, parsed(t, out.Bytes()), "3 now Waiting")
		late(Result{State: GivenUp, Time: noon, Error: "the decision is out of date"})
		synctest.Wait()
		wantSeen(t, parsed(t, out.Bytes()), "3 now Waiting", "1 late GivenUp")
		cancel()
		running.Wait()
		wantSeen(t, parsed(t, out.Bytes()), "3 now Waiting", "1 late GivenUp", "2 later UnderWay")
		later(Result{State: CarriedOut, Time: noon})
		log.Record(named("after"))
		wantSeen(t, parsed(t, out.Bytes()), "3 now Waiting", "1 late GivenUp", "2 later UnderWay")
		observed.want(t, 3, 1, 0)
	})
}

// stuck is a writer. Its Write blocks until letGo is closed.
type stuck struct {
	letGo chan struct{}
	lines bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.letGo
	return s.lines.Write(p)
}

// TestSlowWriter checks that recording a decision does not wait for the writer. Records that do not
// fit into the queue are dropped and counted.
func TestSlowWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, observed := &stuck{letGo: make(chan struct{})}, &counts{}
		log := New(Options{Out: out, Queued: 2, Observer: observed})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { log.Run(ctx) })
		log.Record(named("first"))
		synctest.Wait()
		// The writer blocks Run with the first record, so only two further records fit into the
		// queue.
		for i := range 10 {
			log.Record(named(fmt.Sprint(i)))
		}
		observed.want(t, 0, 8, 0)
		if got := len(log.Latest()); got != 11 {
			t.Errorf("%d records are in memory, want all 11", got)
		}
		close(out.letGo)
		cancel()
		running.Wait()
		wantSeen(t, parsed(t, out.lines.Bytes()), "1 first Waiting", "2 0 Waiting", "3 1 Waiting")
		observed.want(t, 3, 8, 0)
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestFailingWriter(t *testing.T) {
	t.Parallel()
	observed := &counts{}
	log := New(Options{Out: failing{errors.New("no space left on device")}, Observer: observed})
	log.Record(named("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
	observed.want(t, 0, 0, 1)
	wantSeen(t, log.Latest(), "1 a Waiting")
}

// TestNothingToWrite checks that Run returns at once if the Log writes nothing.
func TestNothingToWrite(t *testing.T) {
	t.Parallel()
	New(Options{}).Run(context.WithoutCancel(t.Context()))
}

// TestConcurrently calls all methods concurrently, for the race detector.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	log := New(Options{Kept: 10, Out: io.Discard, Queued: 5})
	ctx, cancel := context.WithCancel(t.Context())
	var running, deciding sync.WaitGroup
	running.Go(func() { log.Run(ctx) })
	for range 4 {
		deciding.Go(func() {
			for range 100 {
				log.Follow(named("f"), nothing)(Result{State: CarriedOut, Time: time.Now()})
				log.Record(named("r"))
				log.Latest()
			}
		})
	}
	deciding.Wait()
	cancel()
	running.Wait()
	if latest := log.Latest(); latest[9].Sequence != 800 {
		t.Errorf("The last of 800 has the number %d", latest[9].Sequence)
	}
}

// BenchmarkRecord measures the time that a scheduling cycle spends on recording, with and without a
// file.
func BenchmarkRecord(b *testing.B) {
	r := made(b, small(running("training", 10, 0, 8)), urgent(8))
	p := urgent(8)
	resources := small().Resources
	for name, out := range map[string]io.Writer{"in memory": nil, "and written": io.Discard} {
		b.Run(name, func(b *testing.B) {
			log := New(Options{Out: out})
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { log.Run(ctx) })
			b.ReportAllocs()
			for b.Loop() {
				r.Asks = AsksOf(p.Classes, resources)
				log.Record(r)
			}
			cancel()
			running.Wait()
		})
	}
}

// BenchmarkEncode measures the time that Run spends on encoding a line.
func BenchmarkEncode(b *testing.B) {
	r := made(b, small(running("training", 10, 0, 8)), urgent(8))
	var line bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		line.Reset()
		if err := Encode(&line, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// said is a Line for tests. If the Log does not write it, it adds its text to the list lost.
type said struct {
	text string
	lost *[]string
}

func (s said) Encode(w io.Writer) error {
	_, err := io.WriteString(w, s.text)
	return err
}

func (s said) Written() {}

func (s said) Unwritten(err error) { *s.lost = append(*s.lost, s.text+": "+err.Error()) }

// TestAppend checks that lines are written in the order of the calls to Append, and that Append
// returns false when the queue is full.
func TestAppend(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var lost []string
	log := New(Options{Out: &out, Queued: 3})
	ok := []bool{log.Append(said{"first\n", &lost})}
	log.Record(Record{Profile: "decided"})
	ok = append(ok, log.Append(said{"second\n", &lost}), log.Append(said{"third\n", &lost}))
	if want := []bool{true, true, false}; !slices.Equal(ok, want) {
		t.Errorf("Append says %t, want %t", ok, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Run(ctx)
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || lines[0] != "first" || !strings.Contains(lines[1], "decided") || lines[2] != "second" {
		t.Errorf("It has the lines %q", lines)
	}
	if log.Append(said{"late\n", &lost}) || New(Options{}).Append(said{"nowhere\n", &lost}) {
		t.Error("A line is taken that is never going to be written")
	}
	full := New(Options{Out: failing{errors.New("the disk is full")}})
	full.Append(said{"text", &lost})
	full.Run(ctx)
	if want := []string{"text: the disk is full"}; !slices.Equal(lost, want) {
		t.Errorf("%q are told of, want %q", lost, want)
	}
}
