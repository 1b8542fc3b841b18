package core

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// retryAt returns the first time when the preemptor would fit because protections have ended; 0 if
// there is no such time. It is a binary search over the ends of protections. This is possible
// because the end of a protection only adds potential victims.
func (sr *search) retryAt() int64 {
	var ends []int64
	for _, t := range sr.policy.passing() {
		ends = append(ends, t.verdict.Until)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	if len(ends) == 0 || !sr.feasibleAfter(ends[len(ends)-1]) {
		return 0
	}
	lo, hi := 0, len(ends)-1
	for lo < hi {
		if mid := (lo + hi) / 2; sr.feasibleAfter(ends[mid]) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return ends[lo] + 1
}

// feasibleAfter reports whether the preemptor would fit after the given time, when the protections
// up to that time have ended.
func (sr *search) feasibleAfter(end int64) bool {
	mem := sr.v.c.borrow()
	defer sr.v.c.handBack(mem)
	then := sr.whole.at(end+1, mem)
	if !then.hasRoom() {
		return false
	}
	c, ok := then.policy.(*queuePolicy)
	return !ok || c.withinLimitsWithout(then.v.eligible(int32(then.v.victims.below-1)))
}

// at returns the search over all potential victims, for a decision at the time now.
func (sr *search) at(now int64, mem *scratch) *search {
	p, v := *sr.p, *sr.v
	p.Now, v.p = now, &p
	then := newSearch(&v, sr.protections)
	then.policy = newPolicy(&v, sr.protections)
	return then.policy.everything(then, mem)
}

// withProtection adds the protections that block the preemptor to a message.
func (sr *search) withProtection(retryAt int64, message string) string {
	if retryAt != 0 {
		return sr.protectedSentence(retryAt) + "; now: " + message
	}
	protected := maps.Clone(sr.policy.protected())
	for _, r := range [...]struct {
		rule      Rule
		one, many string
	}{
		{RuleStaticPod, "static pod stays", "static pods stay"},
		{RuleDeletionRefused, "unit stays as its deletion was refused", "units stay as their deletion was refused"},
		{RuleToleration, "unit of lower priority is protected", "units of lower priority are protected"},
		{RuleNever, "unit of lower priority is in disruption mode Never", "units of lower priority are in disruption mode Never"},
		{RuleClassNotFound, "unit of a PriorityClass that does not exist is protected", "units of PriorityClasses that do not exist are protected"},
		{RulePreemptMinRuntime, "unit of lower priority is protected", "units of lower priority are protected"},
		{RuleReclaimMinRuntime, "unit of another queue is protected", "units of other queues are protected"},
		{RuleMoreImportantGang, "gang that lacks members is more important", "gangs that lack members are more important"},
		{RuleQuota, "unit is part of its queue's quota", "units are part of their queues' quotas"},
		{RuleFairShare, "unit is in a queue within its fair share", "units are in queues within their fair share"},
		{RuleOverShare, "unit of another queue is out of reach", "units of other queues are out of reach"},
	} {
		if n := protected[r.rule]; n > 0 {
			message = fmt.Sprintf("%s; %s (%s)", message, verb(n, r.one, r.many), r.rule)
		}
		delete(protected, r.rule)
	}
	// Other rules are shown by name. NotLowerPriority and OwnGang are not shown as protections.
	delete(protected, RuleNotLowerPriority)
	delete(protected, RuleOwnGang)
	for _, rule := range slices.Sorted(maps.Keys(protected)) {
		if n := protected[rule]; n > 0 {
			message = fmt.Sprintf("%s; %s (%s)", message, verb(n, "unit is protected", "units are protected"), rule)
		}
	}
	return message
}

// protectedSentence names the units whose protection ends at retryAt. Example: "waits until
// 2026-01-01T00:10:00Z, when ns/a (PreemptionToleration) and 2 more units are protected no longer".
func (sr *search) protectedSentence(retryAt int64) string {
	s := sr.whole.s
	first := topUnits{s: s, sign: 1, most: capUnits}
	verdicts := make(map[int32]Verdict)
	for _, t := range sr.policy.passing() {
		if t.verdict.Until < retryAt {
			verdicts[t.unit] = t.verdict
			first.add(t.unit)
		}
	}
	u := first.units[0]
	by := string(verdicts[u].Rule)
	if q := verdicts[u].Queue; q != "" {
		by += " of queue " + q
	}
	more := ""
	if len(verdicts) > 1 {
		more = " and " + plural(len(verdicts)-1, "more unit")
	}
	return fmt.Sprintf("waits until %s, when %s (%s)%s %s protected no longer",
		time.Unix(0, retryAt).UTC().Format(time.RFC3339), s.Units[u].Key(), by, more, verbOnly(len(verdicts)))
}

func verbOnly(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
