package preemption

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// race is a case with two preemptors. The second preemptor is created while the first waits for the
// deletion of its victims. The first has the priority "mid". In one run, all units are single pods;
// in the other run, they are gangs of two.
type race struct {
	// cpus maps a zone to the number of CPUs of each of its nodes.
	cpus map[string]int64
	// running has the units that run at the start. The preemptors may preempt them.
	running       []unitSpec
	first, second unitSpec
	// want maps the priority of the second preemptor to the expected result.
	want map[string]raceEnd
}

// raceEnd is the expected result. It has the final zone of each preemptor, or "" if the preemptor
// must wait.
type raceEnd struct {
	first, second string
	// secondAtOnce is true if the second preemptor must be placed while the deletions are still
	// held.
	secondAtOnce bool
	victims      []string
}

// races returns the scenarios in the section "Consideration to race condition" of KEP-4832.
func races() map[string]race {
	victim := unitSpec{name: "victim", cpus: 4, priority: "low", zone: "a"}
	return map[string]race{
		"the second fits elsewhere": {
			cpus: map[string]int64{"a": 4, "b": 4}, running: []unitSpec{victim},
			first: unitSpec{cpus: 4, zone: "a"}, second: unitSpec{cpus: 4},
			want: map[string]raceEnd{
				"below": {first: "a", second: "b", secondAtOnce: true, victims: []string{"victim"}},
				"mid":   {first: "a", second: "b", secondAtOnce: true, victims: []string{"victim"}},
				"above": {first: "a", second: "b", secondAtOnce: true, victims: []string{"victim"}},
			},
		},
		"the second fits where the first is to go": {
			cpus: map[string]int64{"a": 6}, running: []unitSpec{victim},
			first: unitSpec{cpus: 6, zone: "a"}, second: unitSpec{cpus: 2, zone: "a"},
			want: map[string]raceEnd{
				"below": {first: "a", victims: []string{"victim"}},
				"mid":   {first: "a", victims: []string{"victim"}},
				"above": {second: "a", secondAtOnce: true, victims: []string{"victim"}},
			},
		},
		"both fit where the victim was": {
			cpus:    map[string]int64{"a": 4, "b": 4},
			running: []unitSpec{victim, {name: "bystander", cpus: 4, priority: "low", zone: "b"}},
			first:   unitSpec{cpus: 2, zone: "a"}, second: unitSpec{cpus: 2},
			want: map[string]raceEnd{
				"below": {first: "a", second: "a", victims: []string{"victim"}},
				"mid":   {first: "a", second: "a", victims: []string{"victim"}},
				"above": {first: "a", second: "a", victims: []string{"victim"}},
			},
		},
		"the second needs the same victim": {
			cpus: map[string]int64{"a": 4}, running: []unitSpec{victim},
			first: unitSpec{cpus: 4, zone: "a"}, second: unitSpec{cpus: 4, zone: "a"},
			want: map[string]raceEnd{
				"below": {first: "a", victims: []string{"victim"}},
				"mid":   {first: "a", victims: []string{"victim"}},
				"above": {second: "a", victims: []string{"victim"}},
			},
		},
		"the second needs another victim on the same nodes": {
			cpus: map[string]int64{"a": 4},
			running: []unitSpec{
				{name: "victim-x", cpus: 2, priority: "low", zone: "a"},
				{name: "victim-y", cpus: 2, priority: "low", zone: "a"},
			},
			first: unitSpec{cpus: 2, zone: "a"}, second: unitSpec{cpus: 2, zone: "a"},
			want: map[string]raceEnd{
				"below": {first: "a", second: "a", victims: []string{"victim-x", "victim-y"}},
				"mid":   {first: "a", second: "a", victims: []string{"victim-x", "victim-y"}},
				"above": {first: "a", second: "a", victims: []string{"victim-x", "victim-y"}},
			},
		},
		"the second needs a victim on other nodes": {
			cpus:    map[string]int64{"a": 4, "b": 4},
			running: []unitSpec{victim, {name: "another", cpus: 4, priority: "low", zone: "b"}},
			first:   unitSpec{cpus: 4, zone: "a"}, second: unitSpec{cpus: 4, zone: "b"},
			want: map[string]raceEnd{
				"below": {first: "a", second: "b", victims: []string{"another", "victim"}},
				"mid":   {first: "a", second: "b", victims: []string{"another", "victim"}},
				"above": {first: "a", second: "b", victims: []string{"another", "victim"}},
			},
		},
		"what else there is to take is dearer": {
			cpus:    map[string]int64{"a": 4, "b": 4},
			running: []unitSpec{victim, {name: "dear", cpus: 4, priority: "below", zone: "b"}},
			first:   unitSpec{cpus: 4}, second: unitSpec{cpus: 4},
			want: map[string]raceEnd{
				"below": {first: "a", victims: []string{"victim"}},
				"mid":   {first: "a", second: "b", victims: []string{"dear", "victim"}},
				"above": {first: "b", second: "a", victims: []string{"dear", "victim"}},
			},
		},
	}
}

// TestRaces runs all races. A proxy holds the deletion of the first preemptor's victims until the
// second preemptor has been tried.
func TestRaces(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{"pods": 0, "gangs": 2}
	for name, r := range races() {
		for class, want := range r.want {
			for kind, gang := range kinds {
				each(t, fmt.Sprintf("%s/%s, %s", name, kind, class), gang > 0, func(e *env) { r.run(e, gang, class, want) })
			}
		}
	}
}

func (r race) run(e *env, gang int, class string, want raceEnd) {
	count := max(gang, 1)
	for zone, cpus := range r.cpus {
		e.addNodes(zone, count, cpus)
	}
	var victims []unitSpec
	for _, u := range r.running {
		u.gang, u.pinned = gang, true
		e.createRunning(u)
		if slices.Contains(want.victims, u.name) {
			victims = append(victims, u)
		}
	}
	first, second := r.first, r.second
	first.name, first.priority, first.gang = "first", "mid", gang
	second.name, second.priority, second.gang = "second", class, gang

	hold := e.proxy.Hold(e.deletes(""))
	e.Cleanup(hold.End)
	e.create(first)
	e.Eventually("the first preemption is under way", func(context.Context) string {
		if n := len(e.deleted()); n != count {
			return fmt.Sprintf("%d pods are to be deleted, want %d", n, count)
		}
		return ""
	})
	e.create(second)
	if want.secondAtOnce {
		e.Eventually("the second is placed at once", func(ctx context.Context) string {
			if got := e.standing(ctx, "second"); got != want.second {
				return fmt.Sprintf("it stands in %q, want %q", got, want.second)
			}
			return ""
		})
	} else {
		e.waitRefused(second)
		if got := e.standing(e.Context(), "second"); got != "" {
			e.Fatalf("the second stands in %q while no victim has gone", got)
		}
	}
	if got := e.standing(e.Context(), "first"); got != "" {
		e.Fatalf("the first stands in %q while no victim has gone", got)
	}

	hold.End()
	end := func(ctx context.Context) string {
		got := fmt.Sprintf("first in %q, second in %q, taken %v", e.standing(ctx, "first"), e.standing(ctx, "second"), e.deleted())
		if right := fmt.Sprintf("first in %q, second in %q, taken %v", want.first, want.second, namesOf(victims...)); got != right {
			return got + ", want " + right
		}
		return ""
	}
	e.Eventually("the race ends", end)
	e.Never("it stays that way", end)
}
