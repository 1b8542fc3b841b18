package whatif

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// bestNodes returns the best nodes for a single pod, sorted by name. They pass all filters and
// extenders, and have the highest total score from Score plugins and extenders. The scheduler may
// choose any of them.
//
// If an extender rejects all nodes that the other filters accept, refusedBy is the name of that
// extender. Otherwise it is empty.
func (c *Cluster) bestNodes(ctx context.Context, pod *corev1.Pod) (best []string, refusedBy string, err error) {
	profile, ok := c.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, "", fmt.Errorf("no profile is named %q", pod.Spec.SchedulerName)
	}
	state := framework.NewCycleState()
	feasible, err := feasibleNodes(ctx, profile, state, pod)
	if err != nil || len(feasible) == 0 {
		return nil, "", err
	}
	if feasible, refusedBy, err = passExtenders(profile, pod, feasible); err != nil || len(feasible) == 0 {
		return nil, refusedBy, err
	}
	if status := profile.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return nil, "", fmt.Errorf("score nodes: %w", status.AsError())
	}
	scores, status := profile.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return nil, "", fmt.Errorf("score nodes: %w", status.AsError())
	}
	more := scoresOfExtenders(profile, pod, feasible)
	var top int64
	for _, s := range scores {
		switch score := s.TotalScore + more[s.Name]; {
		case len(best) == 0 || score > top:
			best, top = []string{s.Name}, score
		case score == top:
			best = append(best, s.Name)
		}
	}
	slices.Sort(best)
	return best, "", nil
}

// feasibleNodes returns the nodes that pass all Filter plugins.
func feasibleNodes(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *corev1.Pod) ([]fwk.NodeInfo, error) {
	all, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	confined, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return nil, nil
	}
	var feasible []fwk.NodeInfo
	for _, node := range all {
		if !confined.AllNodes() && !confined.NodeNames.Has(node.Node().Name) {
			continue
		}
		if profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	return feasible, nil
}

// passExtenders returns the nodes that pass all extenders, which are called one after the other. If
// an extender rejects all remaining nodes, refusedBy is its name.
func passExtenders(profile framework.Framework, pod *corev1.Pod, nodes []fwk.NodeInfo) (passed []fwk.NodeInfo, refusedBy string, err error) {
	for _, ext := range profile.Extenders() {
		if !ext.IsFilter() || !ext.IsInterested(pod) {
			continue
		}
		left, _, _, err := ext.Filter(pod, nodes)
		switch {
		case err != nil && ext.IsIgnorable():
			continue
		case err != nil:
			return nil, "", fmt.Errorf("ask extender %s: %w", ext.Name(), err)
		case len(left) == 0:
			return nil, ext.Name(), nil
		}
		nodes = left
	}
	return nodes, "", nil
}

// scoresOfExtenders returns the sum of the extenders' scores for each node. Like the scheduler, it
// ignores extenders that fail.
func scoresOfExtenders(profile framework.Framework, pod *corev1.Pod, nodes []fwk.NodeInfo) map[string]int64 {
	sums := make(map[string]int64)
	for _, ext := range profile.Extenders() {
		if !ext.IsPrioritizer() || !ext.IsInterested(pod) {
			continue
		}
		scores, weight, err := ext.Prioritize(pod, nodes)
		if err != nil {
			continue
		}
		for _, s := range *scores {
			sums[s.Host] += s.Score * weight * (fwk.MaxScore / extenderv1.MaxExtenderPriority)
		}
	}
	return sums
}
