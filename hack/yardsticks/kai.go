package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
)

const (
	// kaiGPUs is the number of GPUs of each node, and kaiMembers the number of pods of a
	// distributed job.
	kaiGPUs, kaiMembers = 8, 10
	// kaiShare is the number of GPUs of each pod if many distributed jobs reclaim.
	kaiShare = 5
	// kaiSamples is the number of measurements of the time until a job is reported unschedulable.
	kaiSamples = 10
	// kaiNodes is the number of nodes that the published times are for.
	kaiNodes = 500
	// kaiPatience is the time that one test may take.
	kaiPatience = 20 * time.Minute
)

// kaiTest is one of KAI's scale tests.
type kaiTest struct {
	name string
	// seconds is the time that KAI publishes, for kaiNodes.
	seconds float64
	// play prepares a cluster without a scheduler and returns the measured time.
	play func(ctx context.Context, c *kaiCluster) (time.Duration, error)
}

// kaiTests lists the tests that Reprieve can run, on some nodes.
func kaiTests(nodes int) []kaiTest {
	return []kaiTest{
		{fmt.Sprintf("%d jobs of one GPU fill the cluster", nodes*kaiGPUs), 397.8, fillCluster},
		{fmt.Sprintf("a job of %d pods is reported unschedulable", kaiMembers), 249.5, reportUnschedulable},
		{fmt.Sprintf("a job of %d pods reclaims %d GPUs", nodes/2, nodes/2*kaiGPUs), 102, reclaimForOneJob},
		{fmt.Sprintf("%d jobs of one GPU reclaim the cluster", nodes*kaiGPUs), 694.5, reclaimForPods},
		{fmt.Sprintf("%d jobs of %d pods of %d GPUs reclaim", nodes/kaiMembers, kaiMembers, kaiShare), 716.9, reclaimForJobs},
	}
}

// kaiLine returns the line of a test. Published times are left out for another number of nodes.
func kaiLine(test *kaiTest, nodes int, took time.Duration) string {
	if nodes != kaiNodes {
		return fmt.Sprintf("| %s | – | %.2f s | – |", test.name, took.Seconds())
	}
	return fmt.Sprintf("| %s | %.1f s | %.2f s | %.1f× |", test.name, test.seconds, took.Seconds(), test.seconds/took.Seconds())
}

// kaiText plays KAI's scale tests, each on a playground of its own.
func kaiText(ctx context.Context, r *run) (string, error) {
	if r.kaiNodes < kaiMembers {
		return "", fmt.Errorf("the row needs at least %d nodes, and there are %d", kaiMembers, r.kaiNodes)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d cores, %s/%s, %s, %d simulated nodes.\n\n", runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, runtime.Version(), r.kaiNodes)
	b.WriteString("| Test | KAI, published | Reprieve | Ratio |\n| --- | ---: | ---: | ---: |\n")
	for _, test := range kaiTests(r.kaiNodes) {
		took, err := r.playKAI(ctx, &test)
		if err != nil {
			return "", fmt.Errorf("%s: %w", test.name, err)
		}
		line := kaiLine(&test, r.kaiNodes, took)
		fmt.Fprintln(r.progress, line)
		b.WriteString(line + "\n")
	}
	return b.String(), nil
}

// playKAI plays one test.
func (r *run) playKAI(ctx context.Context, test *kaiTest) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, kaiPatience)
	defer cancel()
	c, err := newKAICluster(ctx, r.binDir, r.kaiNodes)
	if err != nil {
		return 0, err
	}
	defer func() {
		if stopped := c.p.Stop(); err == nil {
			err = stopped
		}
	}()
	return test.play(ctx, c)
}

// fillCluster measures how long single pods take to fill the cluster. The pods exist before the
// scheduler starts.
func fillCluster(ctx context.Context, c *kaiCluster) (time.Duration, error) {
	if err := c.createQueues(ctx, 0); err != nil {
		return 0, err
	}
	if err := c.createPods(ctx, c.singles("job", fillerQueue)); err != nil {
		return 0, err
	}
	return c.timeUntilPlaced(ctx, "job", c.nodes*kaiGPUs)
}

// reportUnschedulable measures the mean time until a job is reported unschedulable. It needs one
// GPU more than the other queue has beyond its quota.
func reportUnschedulable(ctx context.Context, c *kaiCluster) (time.Duration, error) {
	if err := c.fill(ctx, int64((c.nodes-kaiMembers)*kaiGPUs+1)); err != nil {
		return 0, err
	}
	if err := c.startScheduler(ctx); err != nil {
		return 0, err
	}
	sum := time.Duration(0)
	for i := range kaiSamples {
		took, err := c.timeUntilReported(ctx, fmt.Sprintf("job-%d", i), kaiMembers)
		if err != nil {
			return 0, err
		}
		sum += took
	}
	return sum / kaiSamples, nil
}

// reclaimForOneJob measures how long one job takes to reclaim half of the nodes.
func reclaimForOneJob(ctx context.Context, c *kaiCluster) (time.Duration, error) {
	if err := c.fill(ctx, 0); err != nil {
		return 0, err
	}
	if err := c.startScheduler(ctx); err != nil {
		return 0, err
	}
	placed, err := c.followPlaced(ctx, "job", c.nodes/2)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.createGang(ctx, "job", c.nodes/2, kaiGPUs); err != nil {
		return 0, err
	}
	return since(ctx, began, placed)
}

// reclaimForPods measures how long single pods take to reclaim the cluster.
func reclaimForPods(ctx context.Context, c *kaiCluster) (time.Duration, error) {
	if err := c.fill(ctx, 0); err != nil {
		return 0, err
	}
	if err := c.createPods(ctx, c.singles("job", reclaimQueue)); err != nil {
		return 0, err
	}
	return c.timeUntilPlaced(ctx, "job", c.nodes*kaiGPUs)
}

// reclaimForJobs measures how long many distributed jobs take to reclaim room.
func reclaimForJobs(ctx context.Context, c *kaiCluster) (time.Duration, error) {
	if err := c.fill(ctx, 0); err != nil {
		return 0, err
	}
	jobs := c.nodes / kaiMembers
	for i := range jobs {
		if err := c.createGang(ctx, fmt.Sprintf("job-%d", i), kaiMembers, kaiShare); err != nil {
			return 0, err
		}
	}
	return c.timeUntilPlaced(ctx, "job", jobs*kaiMembers)
}

// since returns the time from a moment until a time arrives.
func since(ctx context.Context, began time.Time, until <-chan time.Time) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case at := <-until:
		return at.Sub(began), nil
	}
}
