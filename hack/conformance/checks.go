package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// check is one test case and the requirement that it tests.
type check struct {
	name, requirement string
	// run tests the requirement. It returns the observation for the page, or an error that names
	// the violation.
	run func(context.Context, *cluster) (observed string, err error)
}

// result is the outcome of a check.
type result struct {
	check
	observed string
	// violation is nil if the scheduler meets the requirement.
	violation error
}

func checks() []check {
	return []check{
		{"A gang that fits", "It starts whole.", gangThatFits},
		{"A gang that does not fit", "No member starts, although most members would fit.", gangThatDoesNotFit},
		{"A gang that preempts", "One gang of lower priority is evicted whole, the other one keeps running, and the gang starts whole.", gangThatPreempts},
		{"A gang that is too large to preempt", "No member starts and no pod is evicted.", gangTooLargeToPreempt},
	}
}

// perform runs a check on an empty cluster and deletes the objects afterwards. The error is nil
// even if the check fails: a failed check is the violation of the result.
func (c *cluster) perform(ctx context.Context, one check) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := result{check: one}
	r.observed, r.violation = one.run(ctx, c)
	clearing, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	if err := c.clear(clearing); err != nil {
		return result{}, fmt.Errorf("after %q: %w", one.name, err)
	}
	return r, nil
}

func gangThatFits(ctx context.Context, c *cluster) (string, error) {
	if err := c.createGang(ctx, "fits", low, nodeCount); err != nil {
		return "", err
	}
	pods, err := c.awaitWhole(ctx, "fits", nodeCount)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %d members run on %d nodes.", len(pods), nodeCount, nodesOf(pods)), nil
}

// gangThatDoesNotFit creates a gang that needs more nodes than exist, and waits until the scheduler
// reports that the gang has no room. Then it creates a single pod, and checks that the pod runs. So
// no member of the gang occupies a node.
func gangThatDoesNotFit(ctx context.Context, c *cluster) (string, error) {
	const members = nodeCount + 1
	if err := c.createGang(ctx, "too-large", low, members); err != nil {
		return "", err
	}
	verdict, err := c.awaitVerdict(ctx, "too-large")
	if err != nil {
		return "", err
	}
	single := newPod("single", low)
	if err := c.Create(ctx, single); err != nil {
		return "", fmt.Errorf("create the single pod: %w", err)
	}
	err = eventually(ctx, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(single), single); err != nil {
			return fmt.Errorf("read the single pod: %w", err)
		}
		return running([]corev1.Pod{*single}, 1)
	})
	if err != nil {
		return "", err
	}
	pods, err := c.members(ctx, "too-large")
	if err != nil {
		return "", err
	}
	if err := nonePlaced(pods, members); err != nil {
		return "", err
	}
	return fmt.Sprintf("0 of %d members have a node. PodGroup: %q. A single pod that came later runs.", members, verdict), nil
}

func gangThatPreempts(ctx context.Context, c *cluster) (string, error) {
	const members = nodeCount / 2
	before, err := c.fill(ctx, members)
	if err != nil {
		return "", err
	}
	if err := c.createGang(ctx, "urgent", high, members); err != nil {
		return "", err
	}
	if _, err := c.awaitWhole(ctx, "urgent", members); err != nil {
		return "", err
	}
	victims, kept, err := c.outcome(ctx, before)
	if err != nil {
		return "", err
	}
	if victims != 1 || kept != 1 {
		return "", fmt.Errorf("%d gangs are evicted whole and %d run whole, want one each", victims, kept)
	}
	return fmt.Sprintf("%d of %d members run. One of the two running gangs is evicted whole, the other one runs on.", members, members), nil
}

func gangTooLargeToPreempt(ctx context.Context, c *cluster) (string, error) {
	before, err := c.fill(ctx, nodeCount/2)
	if err != nil {
		return "", err
	}
	const members = nodeCount + 1
	if err := c.createGang(ctx, "urgent", high, members); err != nil {
		return "", err
	}
	verdict, err := c.awaitVerdict(ctx, "urgent")
	if err != nil {
		return "", err
	}
	pods, err := c.members(ctx, "urgent")
	if err != nil {
		return "", err
	}
	if err := nonePlaced(pods, members); err != nil {
		return "", err
	}
	victims, kept, err := c.outcome(ctx, before)
	if err != nil {
		return "", err
	}
	if victims != 0 || kept != len(before) {
		return "", fmt.Errorf("%d gangs are evicted and %d run, want 0 and %d", victims, kept, len(before))
	}
	return fmt.Sprintf("0 of %d members have a node, and %d gangs run as before. PodGroup: %q.", members, kept, verdict), nil
}

// fill starts two gangs of low priority that use all nodes. It returns the UIDs of the members by
// the name of their gang.
func (c *cluster) fill(ctx context.Context, members int) (map[string][]types.UID, error) {
	before := make(map[string][]types.UID)
	for _, name := range []string{"first", "second"} {
		if err := c.createGang(ctx, name, low, members); err != nil {
			return nil, err
		}
		pods, err := c.awaitWhole(ctx, name, members)
		if err != nil {
			return nil, err
		}
		for i := range pods {
			before[name] = append(before[name], pods[i].UID)
		}
	}
	return before, nil
}

// awaitWhole waits until all members of a gang run, and returns them.
func (c *cluster) awaitWhole(ctx context.Context, gang string, count int) (pods []corev1.Pod, err error) {
	err = eventually(ctx, func(ctx context.Context) error {
		if pods, err = c.members(ctx, gang); err != nil {
			return err
		}
		return running(pods, count)
	})
	return pods, err
}

// outcome returns the number of gangs whose members are all evicted, and the number of gangs whose
// members all remain. It returns an error if a gang has lost only some of its members.
func (c *cluster) outcome(ctx context.Context, before map[string][]types.UID) (victims, kept int, err error) {
	for gang, uids := range before {
		pods, err := c.members(ctx, gang)
		if err != nil {
			return 0, 0, err
		}
		switch left := remaining(pods, uids); left {
		case 0:
			victims++
		case len(uids):
			kept++
		default:
			return 0, 0, fmt.Errorf("%d of %d members of %s are left: it is neither evicted whole nor kept whole", left, len(uids), gang)
		}
	}
	return victims, kept, nil
}
