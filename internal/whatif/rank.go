package whatif

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// bestNodes are the nodes that a single pod may go to as things are: those that pass all filters and that the profile's Score plugins
// like best, by name. Of equals, the scheduler takes any.
func (c *Cluster) bestNodes(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	profile, ok := c.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile is named %q", pod.Spec.SchedulerName)
	}
	all, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	state := framework.NewCycleState()
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
	if len(feasible) == 0 {
		return nil, nil
	}
	if status := profile.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return nil, fmt.Errorf("score nodes: %w", status.AsError())
	}
	scores, status := profile.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return nil, fmt.Errorf("score nodes: %w", status.AsError())
	}
	var best []string
	var top int64
	for _, s := range scores {
		switch {
		case len(best) == 0 || s.TotalScore > top:
			best, top = []string{s.Name}, s.TotalScore
		case s.TotalScore == top:
			best = append(best, s.Name)
		}
	}
	slices.Sort(best)
	return best, nil
}
