package core

import (
	"strings"
	"testing"
)

// TestWordsOfADecision checks the messages for the preemptor and for the victims.
func TestWordsOfADecision(t *testing.T) {
	t.Parallel()
	victims := []Victim{
		{Namespace: "research", Name: "training", Group: true, Priority: 1000, Rule: RuleLowerPriority},
		{Namespace: "research", Name: "notebook", Priority: 20, Rule: RuleReclaim, Queue: "interns"},
	}
	for name, c := range map[string]struct {
		preemptor             Preemptor
		victims               []Victim
		wantTaken, wantTaking string
	}{
		"a gang takes by priority": {
			preemptor: Preemptor{Namespace: "default", Name: "urgent", Gang: true, Priority: 100000}, victims: victims[:1],
			wantTaken:  "preempted by PodGroup default/urgent (priority 100000): LowerPriority, the victim's priority is 1000",
			wantTaking: "it fits: [research/training]",
		},
		"a pod takes what is its queue's": {
			preemptor: Preemptor{Namespace: "prod", Name: "p", Priority: 1, Queue: "product"}, victims: victims[1:],
			wantTaken: "preempted by Pod prod/p (priority 1): Reclaim, the victim's priority is 20; " +
				"queue product takes back what queue interns has beyond its fair share or its quota",
			wantTaking: "it fits: [research/notebook]",
		},
		"by priority, a victim of a queue": {
			preemptor: Preemptor{Namespace: "prod", Name: "p", Priority: 30, Queue: "product"}, victims: []Victim{{Namespace: "research", Name: "notebook", Priority: 20, Rule: RuleLowerPriority, Queue: "interns"}},
			wantTaken:  "preempted by Pod prod/p (priority 30): LowerPriority, the victim's priority is 20; the victim is in queue interns",
			wantTaking: "it fits: [research/notebook]",
		},
		"a victim whose priority is raised": {
			preemptor: Preemptor{Namespace: "default", Name: "urgent", Priority: 1000},
			victims:   []Victim{{Namespace: "research", Name: "training", Group: true, Priority: 500, RaisedBy: 600, Rule: RuleLowerPriority, Queue: "interns"}},
			wantTaken: "preempted by Pod default/urgent (priority 1000): LowerPriority, the victim's priority is 500, raised from -100 by its preemptionPriorityClassName; " +
				"the victim is in queue interns",
			wantTaking: "it fits: [research/training]",
		},
		"a tree takes": {
			preemptor:  Preemptor{Namespace: "prod", Name: "compositepodgroup/serving", Gang: true, Priority: 30},
			victims:    []Victim{{Namespace: "research", Name: "notebook", Priority: 20, Rule: RuleLowerPriority}},
			wantTaken:  "preempted by CompositePodGroup prod/serving (priority 30): LowerPriority, the victim's priority is 20",
			wantTaking: "it fits: [research/notebook]",
		},
		"many go": {
			preemptor:  Preemptor{Namespace: "prod", Name: "p"},
			victims:    []Victim{{Name: "f"}, {Name: "e"}, {Name: "d"}, {Name: "c"}, {Name: "b"}, {Name: "a"}, {Name: "g"}},
			wantTaken:  "preempted by Pod prod/p (priority 0): , the victim's priority is 0",
			wantTaking: "it fits: [/a /b /c /d /e and 2 more]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decision{Preemptor: c.preemptor, Victims: c.victims, Message: "it fits"}
			if got := d.WhyTaken(&d.Victims[0]); got != c.wantTaken {
				t.Errorf("The victim is told %q, want %q", got, c.wantTaken)
			}
			member := ToldMember(c.wantTaken, "research", "training")
			for _, told := range []string{member, member + ", before it was bound"} {
				if kind, group := GroupTold(told); !strings.HasPrefix(told, c.wantTaken) || kind != "PodGroup" || group != "research/training" {
					t.Errorf("A member is told %q, and that is read as %s %q", told, kind, group)
				}
			}
			if kind, group := GroupTold(ToldMember(c.wantTaken, "research", "compositepodgroup/serving")); kind != "CompositePodGroup" || group != "research/serving" {
				t.Errorf("A member of a tree is read as of %s %q", kind, group)
			}
			if kind, group := GroupTold(c.wantTaken); kind != "" || group != "" {
				t.Errorf("%q is read as of %s %q", c.wantTaken, kind, group)
			}
			for _, told := range []string{c.wantTaken, member, member + ", before it was bound"} {
				if got := QueueTold(told); got != c.victims[0].Queue {
					t.Errorf("%q is read as of queue %q, want %q", told, got, c.victims[0].Queue)
				}
			}
			if got := d.Taking(); got != c.wantTaking {
				t.Errorf("The preemptor is told %q, want %q", got, c.wantTaking)
			}
		})
	}
}
