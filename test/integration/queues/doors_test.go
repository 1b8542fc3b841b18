package queues

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
)

// TestNoSecondDoor gives the work of a queue a min-runtime while an eviction is in progress. The
// scheduler must complete what the eviction has begun, and must not begin to evict other work.
// TestWindowThatEnds covers the rules that protect work for a time.
func TestNoSecondDoor(t *testing.T) {
	t.Parallel()
	c := behindProxy(t)
	guarded := func(p *proxied) { p.queue("borrower", "reclaimMinRuntime: 1h", "preemptMinRuntime: 1h") }
	claim := func(p *proxied) { p.pod("claim", 4, "", map[string]string{v1alpha1.LabelQueue: "lender"}) }
	c.play("a decision after one that failed", func(p *proxied) {
		p.queue("lender")
		p.queue("borrower")
		p.pods("borrowed", "borrower", 4, 2, "")
		p.Runs("borrowed", 4)
		fails := p.proxy.Fail(deletes(), http.StatusForbidden)
		p.Cleanup(fails.End)
		claim(p)
		p.WaitEvent("claim", "PreemptionFailed", "the test has delete of pods")
		guarded(p)
		p.WaitsSaying("claim", "waits until", "(ReclaimMinRuntime of queue borrower)")
		tried := p.deleted()
		fails.End()
		p.staysAt(tried)
		p.Runs("borrowed", 4)
	})
	c.play("a decision after one on a whole group that failed", func(p *proxied) {
		p.queue("lender")
		p.queue("borrower")
		p.team(team{name: "borrowed", queue: "borrower", members: 2, minCount: 2, gpus: 4, whole: true})
		fails := p.proxy.Fail(deletes(), http.StatusForbidden)
		p.Cleanup(fails.End)
		claim(p)
		p.WaitEvent("claim", "PreemptionFailed", "the test has delete of pods")
		guarded(p)
		p.WaitsSaying("claim", "waits until", "(ReclaimMinRuntime of queue borrower)")
		p.Eventually("the group is taken off its list", func(ctx context.Context) string {
			if d := p.group(ctx, "borrowed").Status.Disruption; d != nil {
				return fmt.Sprintf("it lists %v", d.Pods)
			}
			return ""
		})
		tried := p.deleted()
		fails.End()
		p.staysAt(tried)
		p.Runs("borrowed", 2)
	})
	c.play("what is completed after a restart", func(p *proxied) {
		p.queue("lender")
		p.queue("borrower")
		leaf := team{
			name: "borrowed", queue: "borrower", members: 2, minCount: 2, gpus: 4, whole: true, change: []func(*corev1.Pod){linger},
		}
		p.team(leaf)
		// Hold only the real delete request. After the failures in earlier cases, the scheduler
		// sends a dry run first.
		held := p.hold(turnstile.Request{Verb: "delete", Resource: "pods", Name: "borrowed-1", Real: true})
		claim(p)
		p.waitDeletes(2)
		p.Eventually("one member goes", func(ctx context.Context) string {
			if p.Find(ctx, "borrowed-0").DeletionTimestamp == nil {
				return "it stays"
			}
			return ""
		})
		p.restart(func() {
			guarded(p)
			leaf.gpus = 0
			p.member(leaf, 2)
			held.End()
		})
		// The scheduler must evict all members in the intent, because a part of the gang is
		// useless. The member that was created later is not in the intent, so it must stay.
		p.Eventually("the other one goes as well", func(ctx context.Context) string {
			if p.Find(ctx, "borrowed-1").DeletionTimestamp == nil {
				return "it stays"
			}
			return ""
		})
		p.staysAt([]string{"borrowed-0", "borrowed-1"})
	})
}
