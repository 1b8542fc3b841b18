package queues

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/preemption/turnstile"
)

// TestReclaimThatIsOvertaken changes the cluster while the victims of a reclaim are being deleted.
// Exactly the selected victims must be evicted, and waiting work must get the room.
func TestReclaimThatIsOvertaken(t *testing.T) {
	t.Parallel()
	c := behindProxy(t)
	tests := map[string]struct {
		change func(p *proxied)
		// The numbers of pods that must run at the end. They are wantClaim for the reclaimer,
		// wantBorrowed for the borrower, and wantHeirs for other work that waits for the room.
		wantClaim, wantBorrowed, wantHeirs int
	}{
		"by the end of the reclaimer": {
			change: func(p *proxied) {
				if err := p.Kube.CoreV1().Pods("default").Delete(p.Context(), "claim", metav1.DeleteOptions{}); err != nil {
					p.Fatal(err)
				}
			},
			wantBorrowed: 2, wantHeirs: 2,
		},
		"by the end of the victims' queue": {
			// After this queue is deleted, its remaining work may be preempted by priority.
			change:    func(p *proxied) { p.deleteQueue("borrower") },
			wantClaim: 1, wantBorrowed: 2,
		},
		"by the end of the reclaimer's queue": {
			change:       func(p *proxied) { p.deleteQueue("lender") },
			wantBorrowed: 2, wantHeirs: 2,
		},
		"by a smaller share of the reclaimer": {
			// The lender has a lower fair share now, but the room is reserved for its work.
			change:    func(p *proxied) { p.queue("lender", "quota: {nvidia.com/gpu: 1}", "overQuotaWeight: 0") },
			wantClaim: 1, wantBorrowed: 2,
		},
	}
	for name, tt := range tests {
		c.play(name, func(p *proxied) {
			p.queue("borrower")
			p.queue("lender", "quota: {nvidia.com/gpu: 4}", "overQuotaWeight: 0")
			p.pods("borrowed", "borrower", 4, 2, "")
			p.Runs("borrowed", 4)
			held := p.hold(deletes())
			p.pod("claim", 4, "", map[string]string{v1alpha1.LabelQueue: "lender"})
			victims := p.waitDeletes(2)
			tt.change(p)
			p.pods("heir", "borrower", 2, 2, "")
			held.End()
			p.Runs("claim", tt.wantClaim)
			p.Runs("borrowed", tt.wantBorrowed)
			p.Runs("heir", tt.wantHeirs)
			p.staysAt(victims)
		})
	}
	c.play("by the end of the reclaimer, before the first delete", func(p *proxied) {
		p.queue("borrower")
		p.queue("lender", "quota: {nvidia.com/gpu: 4}", "overQuotaWeight: 0")
		p.pods("borrowed", "borrower", 4, 2, "")
		p.Runs("borrowed", 4)
		nominations := turnstile.Request{Verb: "patch", Resource: "pods", Subresource: "status"}
		before := len(p.proxy.Calls(nominations))
		held := p.hold(nominations)
		p.gang("claim", "lender", 2, 2, 2)
		p.Eventually("the claim is nominated", func(context.Context) string {
			if got := p.proxy.Calls(nominations)[before:]; len(got) == 0 {
				return "it is not"
			}
			return ""
		})
		p.remove("claim-0", "claim-1")
		held.End()
		p.staysAt(nil)
		p.Runs("borrowed", 4)
		p.pods("heir", "lender", 1, 4, "")
		p.Runs("heir", 1)
		if got := len(p.deleted()); got != 2 {
			p.Errorf("%d pods were deleted for whoever came next, want 2", got)
		}
	})
}
