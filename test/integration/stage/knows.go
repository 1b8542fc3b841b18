package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// Snapshot returns the state of the cluster in the scheduler's memory, which its decisions use.
func (s *Stage) Snapshot(ctx context.Context) (*snapshot.State, error) {
	raw, err := s.ask(ctx, s.Run.Component(playground.Scheduler), "/debug/reprieve/snapshot")
	if err != nil {
		return nil, err
	}
	state := &snapshot.State{}
	if err := json.Unmarshal(raw, state); err != nil {
		return nil, fmt.Errorf("read the scheduler's snapshot: %w", err)
	}
	return state, nil
}

// KnowsBudget waits until the status of a PodDisruptionBudget counts healthy pods, and until the
// scheduler has cached this status.
func (s *Stage) KnowsBudget(name string, healthy int32) {
	s.Helper()
	s.Eventually("the scheduler goes by the budget "+name, func(ctx context.Context) string {
		budget, err := s.Kube.PolicyV1().PodDisruptionBudgets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if budget.Status.ObservedGeneration != budget.Generation || budget.Status.CurrentHealthy != healthy {
			return fmt.Sprintf("it counts %d pods, want %d", budget.Status.CurrentHealthy, healthy)
		}
		state, err := s.Snapshot(ctx)
		if err != nil {
			return err.Error()
		}
		want := snapshot.StateBudget{Key: s.Namespace + "/" + name, Allowed: budget.Status.DisruptionsAllowed}
		if !slices.Contains(state.Budgets, want) {
			return fmt.Sprintf("it goes by %v, want %v", state.Budgets, want)
		}
		return ""
	})
}

// KnowsNodes waits until the nodes in the scheduler's cache are exactly the existing nodes, without
// taints. Use it in tests that run alone: parallel tests change nodes, which makes the scheduler
// retry pods.
func (s *Stage) KnowsNodes() {
	s.Helper()
	s.Eventually("the scheduler knows the nodes", func(ctx context.Context) string {
		list, err := s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		state, err := s.Snapshot(ctx)
		if err != nil {
			return err.Error()
		}
		var there, known []string
		for i := range list.Items {
			there = append(there, list.Items[i].Name)
		}
		for i := range state.Nodes {
			node := &state.Nodes[i]
			if len(node.Taints) > 0 {
				return "it has node " + node.Name + " with the taint " + node.Taints[0].Key
			}
			known = append(known, node.Name)
		}
		slices.Sort(there)
		slices.Sort(known)
		if !slices.Equal(there, known) {
			return fmt.Sprintf("it knows %q, and there are %q", known, there)
		}
		return ""
	})
}
