package queues

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestHalfGangs reclaims from several gangs. The youngest member of each gang is the least
// important. If the scheduler evicted the youngest pods, it would damage all gangs. It must evict
// pods of one gang only.
func TestHalfGangs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nodes, gangs, size, gpus int
	}{
		"two of two":   {1, 2, 2, 2},
		"four of four": {2, 4, 4, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, tt.nodes)
			c.queue("borrower")
			c.queue("lender")
			c.known("borrower", "lender")
			var jobs []team
			for g := range tt.gangs {
				job := team{name: fmt.Sprintf("job%d", g), queue: "borrower", members: tt.size, minCount: tt.size, gpus: tt.gpus}
				c.team(job)
				jobs = append(jobs, job)
			}
			began := time.Now()
			c.Eventually("a second has passed", func(context.Context) string {
				if now := time.Now(); now.Unix() <= began.Unix() {
					return now.String()
				}
				return ""
			})
			for _, job := range jobs {
				c.delete(job.name + "-0")
				c.member(job, 0)
				c.Runs(job.name+"-", tt.size)
			}
			c.team(team{name: "claim", queue: "lender", members: tt.size, minCount: tt.size, gpus: tt.gpus})
			var broken []string
			c.Never("no more gangs are below minCount", func(ctx context.Context) string {
				broken = nil
				for _, job := range jobs {
					if left := len(c.Pods(ctx, job.name+"-")); left < tt.size {
						broken = append(broken, job.name)
					}
				}
				if len(broken) != 1 {
					return fmt.Sprintf("%v are", broken)
				}
				return ""
			})
			c.WaitEvent("PodGroup/claim", "Preempting", "gang default/"+broken[0]+" falls below minCount")
			if pg := c.group(c.Context(), broken[0]); pg.Status.Phase == v1alpha1.PodGroupRunning {
				c.Errorf("PodGroup %s is %s", broken[0], pg.Status.Phase)
			}
		})
	}
}
