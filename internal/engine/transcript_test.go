package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

// TestTranscripts plays the events in each file of testdata and compares the effects with the file.
// Run it with -rewrite to write the present effects into the files.
//
// The command "events" has one event in each line. Its output repeats each event, followed by the
// effects of the event. The output of the command "state" is the list of reservations and waits.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		story := &transcript{engine: New(nil)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "events":
				return story.play(t, d)
			case "state":
				return story.state()
			default:
				d.Fatalf(t, "unknown command %q; want events or state", d.Cmd)
				return ""
			}
		})
	})
}

// transcript is the state of one file: an engine and the time in seconds.
type transcript struct {
	engine *Engine
	now    int
}

// sentence is one form that an event can have in a transcript.
type sentence struct {
	form *regexp.Regexp
	does func(s *transcript, words []string) []Effect
}

// play applies the events of a command, and returns each event with its effects.
func (s *transcript) play(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		effects, ok := s.event(line)
		if !ok {
			d.Fatalf(t, "%q has no known form of an event", line)
		}
		fmt.Fprintln(&out, line)
		for _, effect := range effects {
			fmt.Fprintln(&out, "  "+effectSentence(effect))
		}
	}
	return out.String()
}

// event applies the event of one line, and returns its effects. It returns false if the line has no
// known form.
func (s *transcript) event(line string) ([]Effect, bool) {
	for _, form := range sentences() {
		if words := form.form.FindStringSubmatch(line); words != nil {
			return form.does(s, words[1:]), true
		}
	}
	return nil, false
}

// sentences returns the forms that events can have. A name that begins with "g" is the name of a
// gang, and any other name is the name of a pod.
func sentences() []sentence {
	step := func(form string, event func(words []string) Event) sentence {
		return sentence{regexp.MustCompile("^" + form + "$"), func(s *transcript, words []string) []Effect {
			return s.engine.Step(at(float64(s.now)), event(words))
		}}
	}
	report := func(form string, does func(s *transcript, words []string)) sentence {
		return sentence{regexp.MustCompile("^" + form + "$"), func(s *transcript, words []string) []Effect {
			does(s, words)
			return nil
		}}
	}
	return []sentence{
		step(`(\w+) arrives`, func(w []string) Event { return PodArrives{Pod: w[0], Key: named(w[0])} }),
		step(`(\w+) arrives in (\w+)`, func(w []string) Event { return PodArrives{Pod: w[0], Key: named(w[0]), Group: named(w[1])} }),
		step(`(\w+) joins another group`, func(w []string) Event { return PodRejoins{Pod: w[0], Key: named(w[0])} }),
		step(`(\w+) is assumed on (\w+)`, func(w []string) Event { return PodAssumes{Pod: w[0], Key: named(w[0]), Node: w[1]} }),
		step(`(\w+) is bound to (\w+)`, func(w []string) Event { return PodBinds{Pod: w[0], Key: named(w[0]), Node: w[1]} }),
		step(`pod (\w+) leaves`, func(w []string) Event { return PodLeaves{Pod: w[0], Key: named(w[0])} }),
		step(`gang (\w+) has no member left`, func(w []string) Event { return GroupLeaves{named(w[0])} }),
		step(`(\w+) has its place`, func(w []string) Event { return WorkloadPlaced{named(w[0])} }),
		step(`(\w+) reserves (.*)`, func(w []string) Event { return Reserves{Key: named(w[0]), Rooms: rooms(w[1])} }),
		step(`(\w+) releases its room`, func(w []string) Event { return Releases{named(w[0])} }),
		step(`the plan of (\w+) fails at (\w+)`, func(w []string) Event { return PlanReleased{Group: named(w[0]), Failed: w[1]} }),
		step(`the eviction for (\w+) fails, so (\w+) releases`, func(w []string) Event { return PodsRelease{Key: named(w[0]), Pods: w[1:]} }),
		step(`the room of (.*) is free`, func(w []string) Event { return RoomFreed{Rooms: rooms(w[0])} }),
		step(`(\w+) ends`, func(w []string) Event { return CauseEnds{causeNamed(w[0])} }),
		step(`victim (\w+) is gone`, func(w []string) Event { return VictimGone{w[0]} }),
		step(`victim (\w+) stays`, func(w []string) Event { return VictimStays{w[0]} }),
		report(`(\w+) waits for (\w+)`, func(s *transcript, w []string) {
			s.engine.Waits.Wait(named(w[0]), causeNamed(w[1]), s.engine.Waits.Mark())
		}),
		report(`(\w+) waits for victims (.*)`, func(s *transcript, w []string) {
			victims := strings.Fields(w[1])
			s.engine.Waits.WaitForVictims(named(w[0]), victims, workload.Requires(victims[len(victims)-1]))
		}),
		report(`(\w+) waits (\d+) s for (\w+)`, func(s *transcript, w []string) {
			s.engine.Waits.WaitUntil(named(w[0]), causeNamed(w[2]), at(float64(s.now+number(w[1]))))
		}),
		report(`(\w+) is planned: (.*)`, func(s *transcript, w []string) {
			var plan []Assignment
			for _, r := range rooms(w[1]) {
				plan = append(plan, Assignment{r.UID, r.Node})
			}
			s.engine.Gangs.SetPlan(named(w[0]), plan)
		}),
		{regexp.MustCompile(`^(\d+) s pass$`), func(s *transcript, w []string) []Effect {
			s.now += number(w[0])
			return s.engine.Step(at(float64(s.now)), TimePasses{})
		}},
	}
}

func number(text string) (n int) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

func named(name string) workload.Key {
	if strings.HasPrefix(name, "g") {
		return gangNamed(name)
	}
	return podNamed(name)
}

func causeNamed(name string) Cause {
	for c := range causes {
		if c.String() == name {
			return c
		}
	}
	return causes
}

// rooms parses reservations such as "a on n1, b on n2 of team-a".
func rooms(text string) (out []*Reservation) {
	for i, one := range strings.Split(text, ", ") {
		words := strings.Fields(one)
		r := &Reservation{UID: words[0], Node: words[2], Place: i}
		if len(words) == 5 {
			r.Queue = words[4]
		}
		out = append(out, r)
	}
	return out
}

// effectSentence returns the text of an effect in a transcript.
func effectSentence(effect Effect) string {
	switch effect := effect.(type) {
	case Retry:
		return "retry " + effect.Key.Name
	case Review:
		return "review " + effect.Key.Name
	case Overdue:
		return "overdue " + effect.Key.Name
	case Withdraw:
		pods := make([]string, len(effect.Rooms))
		for i, r := range effect.Rooms {
			pods[i] = r.UID + " on " + r.Node
		}
		return "withdraw " + strings.Join(pods, ", ")
	case UsageDrops:
		return "usage drops in " + strings.Join(effect.Queues, ", ")
	default:
		return fmt.Sprintf("%T", effect)
	}
}

// state returns the text of all reservations and waits, sorted.
func (s *transcript) state() string {
	var out []string
	for _, key := range s.engine.Reservations.Keys() {
		for _, r := range s.engine.Reservations.Of(key) {
			out = append(out, fmt.Sprintf("%s has room for %s on %s", key.Name, r.UID, r.Node))
		}
	}
	for c := range causes {
		for _, key := range s.engine.Waits.Waiting(c) {
			out = append(out, fmt.Sprintf("%s waits for %s", key.Name, c))
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(s.engine.Waits.byVictim)) {
		for key := range s.engine.Waits.byVictim[uid] {
			out = append(out, fmt.Sprintf("%s waits for victim %s", key.Name, uid))
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}
