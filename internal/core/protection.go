package core

import (
	"fmt"
	"slices"
	"time"
)

// retryAt is the first moment at which the preemptor would have room, given only that time passes; 0 where that
// is no help. The more protections have ended, the more there is to take, so the moment can be halved in on.
func (sr *search) retryAt() int64 {
	var ends []int64
	for u := range sr.v.sus.spared {
		if v := Judge(sr.p, &sr.s.Units[u]); v.passes() {
			ends = append(ends, v.Until)
		}
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

// feasibleAfter reports whether the preemptor would have room if every protection that ends by then had ended.
func (sr *search) feasibleAfter(end int64) bool {
	w := *sr.v
	w.sus.spared = make(map[int32]Rule)
	for u, rule := range sr.v.sus.spared {
		if v := Judge(sr.p, &sr.s.Units[u]); v.passes() && v.Until <= end {
			w.sus.count++
		} else {
			w.sus.spared[u] = rule
		}
	}
	w.thin()
	then := &search{s: sr.s, p: sr.p, v: &w}
	t := newTrial(&w, w.c.later)
	defer t.allBack()
	_, ok := then.insist(t)
	return ok
}

// withProtection adds to a message what protections have to do with it.
func (sr *search) withProtection(retryAt int64, message string) string {
	if retryAt != 0 {
		return sr.protectedSentence(retryAt) + "; now: " + message
	}
	tolerate := 0
	for _, rule := range sr.v.sus.spared {
		if rule == RuleToleration {
			tolerate++
		}
	}
	if tolerate == 0 {
		return message
	}
	return fmt.Sprintf("%s; %s protected (%s)", message,
		verb(tolerate, "unit of lower priority is", "units of lower priority are"), RuleToleration)
}

// protectedSentence says what is protected until a moment, as in "waits until 2026-01-01T00:10:00Z, when ns/a
// (PreemptionToleration) and 2 more units are protected no longer".
func (sr *search) protectedSentence(retryAt int64) string {
	first := topUnits{s: sr.s, sign: 1}
	count := 0
	for u := range sr.v.sus.spared {
		if v := Judge(sr.p, &sr.s.Units[u]); v.passes() && v.Until < retryAt {
			count++
			first.offer(u)
		}
	}
	u := &sr.s.Units[first.units[0]]
	more := ""
	if count > 1 {
		more = " and " + plural(count-1, "more unit")
	}
	return fmt.Sprintf("waits until %s, when %s (%s)%s %s protected no longer",
		time.Unix(0, retryAt).UTC().Format(time.RFC3339), u.Key(), Judge(sr.p, u).Rule, more, verbOnly(count))
}

func verbOnly(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
