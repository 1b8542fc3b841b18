package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
)

const (
	// kaiGPUs is the number of GPUs of each node. kaiMembers is the number of pods of a distributed
	// job.
	kaiGPUs, kaiMembers = 8, 10
	// kaiShare is the number of GPUs that each pod requests in the test with many distributed jobs.
	kaiShare = 5
	// kaiSamples is the number of jobs in the test that measures how fast a job is reported
	// unschedulable.
	kaiSamples = 10
	// kaiNodes is the number of nodes in KAI's published measurements.
	kaiNodes = 500
	// kaiPatience is the timeout of one test.
	kaiPatience = 20 * time.Minute
)

// kaiTest is one of the published scale tests of the KAI scheduler.
type kaiTest struct {
	name string
	// seconds is the published time of KAI on kaiNodes nodes.
	seconds float64
	// play runs the test and returns the measured time. At its start, the cluster has no scheduler.
	play func(ctx context.Context, c *kaiCluster) (time.Duration, error)
}

// kaiTests returns the tests that Reprieve can run, for a number of nodes.
func kaiTests(nodes int) []kaiTest {
	return []kaiTest{
		{fmt.Sprintf("%d jobs of one GPU fill the cluster", nodes*kaiGPUs), 397.8, fillCluster},
		{fmt.Sprintf("a job of %d pods is reported unschedulable", kaiMembers), 249.5, reportUnschedulable},
		{fmt.Sprintf("a job of %d pods reclaims %d GPUs", nodes/2, nodes/2*kaiGPUs), 102, reclaimForOneJob},
		{fmt.Sprintf("%d jobs of one GPU reclaim the cluster", nodes*kaiGPUs), 694.5, reclaimForPods},
		{fmt.Sprintf("%d jobs of %d pods of %d GPUs reclaim", nodes/kaiMembers, kaiMembers, kaiShare), 716.9, reclaimForJobs},
	}
}

// kaiLine returns the table row of a test. It omits the published time if the number of nodes
// differs from kaiNodes.
func kaiLine(test *kaiTest, nodes int, took time.Duration) string {
	if nodes != kaiNodes {
		return fmt.Sprintf("| %s | – | %.2f s | – |", test.name, took.Seconds())
	}
	return fmt.Sprintf("| %s | %.1f s | %.2f s | %.1f× |", test.name, test.seconds, took.Seconds(), test.seconds/took.Seconds())
}

// kaiText runs the scale tests, each on a new playground, and returns the table of results.
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

// playKAI runs one test and returns the measured time.
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

// fillCluster measures how long the scheduler takes to place a single pod on each GPU. The pods
// exist before the scheduler starts.
func fillCluster(ctx context.Context, c *kaiCluster) (time.Duration, error) {
	if err := c.createQueues(ctx, 0); err != nil {
		return 0, err
	}
	if err := c.createPods(ctx, c.singles("job", fillerQueue)); err != nil {
		return 0, err
	}
	return c.timeUntilPlaced(ctx, "job", c.nodes*kaiGPUs)
}

// reportUnschedulable measures the mean time until a job is reported unschedulable. The job needs
// one GPU more than it can reclaim: the filler queue has too few GPUs above its quota.
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

// reclaimForOneJob measures how long the scheduler takes to reclaim half of the nodes for one job.
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

// reclaimForPods measures how long the scheduler takes to reclaim all GPUs for single pods.
func reclaimForPods(ctx context.Context, c *kaiCluster) (time.Duration, error) {
	if err := c.fill(ctx, 0); err != nil {
		return 0, err
	}
	if err := c.createPods(ctx, c.singles("job", reclaimQueue)); err != nil {
		return 0, err
	}
	return c.timeUntilPlaced(ctx, "job", c.nodes*kaiGPUs)
}

// reclaimForJobs measures how long the scheduler takes to reclaim GPUs for many distributed jobs.
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

// since receives a time from until, and returns the duration from began to that time.
func since(ctx context.Context, began time.Time, until <-chan time.Time) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case at := <-until:
		return at.Sub(began), nil
	}
}
