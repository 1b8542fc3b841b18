package queue

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core/fairshare"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// Check returns the reason why work cannot be in the queue that it names. It returns the zero
// Verdict if the work can be there, if queue is "", or if no Queue exists.
func (b *Ledger) Check(queue string) gang.Verdict {
	if queue == "" || !b.Used() {
		return gang.Verdict{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queues) == 0 {
		return gang.Verdict{}
	}
	return b.check(queue)
}

// Orphaned returns the reason why running work does not count for the queue that it names. It also
// returns the effect on the work. It returns the zero Verdict if the work counts for that queue, or
// names none. The argument before is true if the status already reports the work as orphaned. If no
// Queue exists any more, work is orphaned only if before is true or the named queue was deleted.
func (b *Ledger) Orphaned(queue string, before bool) gang.Verdict {
	if queue == "" {
		return gang.Verdict{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queues) == 0 && !b.deleted[queue] && !before {
		return gang.Verdict{}
	}
	v := b.check(queue)
	if v != (gang.Verdict{}) {
		v.Message += "; " + b.effectOf(queue)
	}
	return v
}

// check does the work of Check for a queue that is not "". The caller holds the lock.
func (b *Ledger) check(queue string) gang.Verdict {
	if _, ok := b.queues[queue]; !ok {
		return gang.Verdict{Reason: v1alpha1.ReasonQueueNotFound, Message: fmt.Sprintf("Queue %q does not exist", queue)}
	}
	if b.inner[queue] {
		return gang.Verdict{
			Reason:  v1alpha1.ReasonQueueNotLeaf,
			Message: fmt.Sprintf("Queue %q has other queues below it; work goes into one without any, such as %q", queue, b.someLeaf(queue)),
		}
	}
	if v := b.checkKept(queue); v != (gang.Verdict{}) {
		return v
	}
	steps := 0
	for at := b.queues[queue]; at.Spec.Parent != nil; steps++ {
		parent, ok := b.queues[*at.Spec.Parent]
		if !ok {
			return unusable(queue, fmt.Sprintf("the parent %q of Queue %q does not exist", *at.Spec.Parent, at.Name))
		}
		if steps > len(b.queues) {
			return unusable(queue, fmt.Sprintf("Queue %q is its own ancestor", b.firstTwice(queue)))
		}
		at = parent
	}
	return gang.Verdict{}
}

// firstTwice returns the first name that occurs twice on the path from a queue to its ancestors.
// The ancestors must form a cycle.
func (b *Ledger) firstTwice(queue string) string {
	seen := map[string]bool{}
	for at := b.queues[queue]; ; {
		name := *at.Spec.Parent
		if seen[name] {
			return name
		}
		seen[name] = true
		at = b.queues[name]
	}
}

func unusable(queue, why string) gang.Verdict {
	return gang.Verdict{Reason: v1alpha1.ReasonQueueUnusable, Message: fmt.Sprintf("Queue %q cannot be used: %s", queue, why)}
}

// someLeaf returns any leaf queue below a queue.
func (b *Ledger) someLeaf(queue string) string {
	at, seen := queue, map[string]bool{}
	for !seen[at] {
		seen[at] = true
		var below []string
		for _, q := range b.queues {
			if q.Spec.Parent != nil && *q.Spec.Parent == at {
				below = append(below, q.Name)
			}
		}
		if len(below) == 0 {
			return at
		}
		at = slices.Min(below)
	}
	return at
}

// Over describes a limit of a queue that a request would exceed.
type Over struct {
	Queue    string
	Resource corev1.ResourceName
	// Limit, Used and Wanted are in milli-CPUs, bytes, or whole units. Used does not include the
	// request itself.
	Limit, Used, Wanted int64
}

// Sentence returns the description for users.
func (o *Over) Sentence() string {
	q := func(v int64) string { return fairshare.Format(string(o.Resource), v) }
	return fmt.Sprintf("Queue %q has a limit of %s %s: %s are in use and %s more are needed", o.Queue, q(o.Limit), o.Resource, q(o.Used), q(o.Wanted))
}

// Room checks requests against the limits of a queue and of its ancestors. It returns how many of
// the requests, from the first on, fit together. It also returns the limit that blocks the next
// request; nil if all fit. The argument reserved has pods with a reservation: they count as usage,
// even if they have no node in the API yet. The argument gone has pods that do not count.
func (b *Ledger) Room(queue string, requests []Amounts, reserved, gone []types.UID) (int, *Over) {
	if queue == "" || !b.Used() {
		return len(requests), nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	names, limited := b.limited(queue, reserved, gone)
	levels, vectors := make([]fairshare.Level, len(limited)), make([]fairshare.Amounts, len(requests))
	for i, l := range limited {
		levels[i] = fairshare.Level{Limit: b.limits[l.queue].vector(names, fairshare.Unlimited), Used: l.used.vector(names, 0)}
	}
	for i, request := range requests {
		vectors[i] = request.vector(names, 0)
	}
	n, over := fairshare.Room(levels, vectors)
	if over == nil {
		return n, nil
	}
	return n, &Over{
		Queue: limited[over.Level].queue, Resource: corev1.ResourceName(names[over.Resource]),
		Limit: levels[over.Level].Limit[over.Resource], Used: over.Used, Wanted: vectors[n][over.Resource],
	}
}

// IsLimited reports whether a queue or any of its ancestors has a limit.
func (b *Ledger) IsLimited(queue string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.path(queue), func(name string) bool { return len(b.limits[name]) > 0 })
}

// LimitsOn returns the queues that have a limit, among the given queues and their ancestors.
func (b *Ledger) LimitsOn(queues ...string) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, queue := range queues {
		for _, name := range b.limitsOn(queue) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (b *Ledger) limitsOn(queue string) []string {
	return slices.DeleteFunc(b.path(queue), func(name string) bool { return len(b.limits[name]) == 0 })
}

// level is a queue with a limit, and its usage.
type level struct {
	queue string
	used  Amounts
}

// limited returns the queues that have a limit, among a queue and its ancestors, each with its
// usage. It also returns the resources of these limits.
func (b *Ledger) limited(queue string, reserved, gone []types.UID) (resources []string, levels []level) {
	leaves := make(map[types.UID]bool, len(gone))
	for _, uid := range gone {
		leaves[uid] = true
	}
	named := make(map[string]bool)
	for _, name := range b.path(queue) {
		if len(b.limits[name]) == 0 {
			continue
		}
		for resource := range b.limits[name] {
			named[string(resource)] = true
		}
		l := level{queue: name, used: b.allocated[name].clone()}
		for _, uid := range reserved {
			if c, ok := b.pods[uid]; ok && !c.placed && !leaves[uid] && slices.Contains(b.path(c.queue), name) {
				l.used.add(c.request, 1)
			}
		}
		for _, uid := range gone {
			if c, ok := b.pods[uid]; ok && c.placed && slices.Contains(b.path(c.queue), name) {
				l.used.add(c.request, -1)
			}
		}
		levels = append(levels, l)
	}
	return slices.Sorted(maps.Keys(named)), levels
}

// Unplaced returns the sum of the requests of some pods by queue. It leaves out pods that have a
// node.
func (b *Ledger) Unplaced(pods []types.UID) map[string]Amounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]Amounts)
	for _, uid := range pods {
		c, ok := b.pods[uid]
		if !ok || c.placed {
			continue
		}
		if out[c.queue] == nil {
			out[c.queue] = make(Amounts)
		}
		out[c.queue].Add(c.request)
	}
	return out
}

// path returns a queue and its ancestors, from the queue upwards. It ends at a queue that does not
// exist.
func (b *Ledger) path(queue string) []string {
	var path []string
	for name := queue; ; {
		q, ok := b.queues[name]
		if !ok || slices.Contains(path, name) {
			return path
		}
		path = append(path, name)
		if q.Spec.Parent == nil {
			return path
		}
		name = *q.Spec.Parent
	}
}
