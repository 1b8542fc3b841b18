package core

import (
	"cmp"
	"errors"
	"fmt"
)

// ErrBadInput is wrapped by every error of Decide and of Cluster. It means that a Snapshot,
// Preemptor or NodeState violates its documentation.
var ErrBadInput = errors.New("bad input")

func validate(s *Snapshot, p *Preemptor) error {
	// A Cluster checks each node in SetNode. So check the nodes only for snapshots without a
	// Cluster.
	if s.columns == nil {
		if err := validateSnapshot(s); err != nil {
			return err
		}
	}
	return cmp.Or(validatePreemptor(p, len(s.Resources)), validateDomain(p, len(s.Nodes)), validateLevels(p, len(s.Nodes)))
}

func validateSnapshot(s *Snapshot) error {
	dims := len(s.Resources)
	for i := range s.Nodes {
		if err := validateNode(&s.Nodes[i], dims); err != nil {
			return err
		}
	}
	for u := range s.Units {
		if len(s.Units[u].Pods) == 0 {
			return fmt.Errorf("%w: unit %s has no pods", ErrBadInput, s.Units[u].Key())
		}
		for i := range s.Units[u].Pods {
			if err := validatePod(&s.Units[u].Pods[i], s); err != nil {
				return err
			}
		}
	}
	for i := range s.Leaving {
		if err := validatePod(&s.Leaving[i], s); err != nil {
			return err
		}
	}
	return nil
}

func validateNode(n *Node, dims int) error {
	if len(n.Free) != dims || len(n.Allocatable) != dims {
		return fmt.Errorf("%w: node %q has %d and %d amounts for %d resources",
			ErrBadInput, n.Name, len(n.Free), len(n.Allocatable), dims)
	}
	return nil
}

func validatePod(pod *Pod, s *Snapshot) error {
	if len(pod.Request) != len(s.Resources) {
		return fmt.Errorf("%w: pod %s/%s has %d amounts for %d resources",
			ErrBadInput, pod.Namespace, pod.Name, len(pod.Request), len(s.Resources))
	}
	if pod.Node >= len(s.Nodes) {
		return fmt.Errorf("%w: pod %s/%s is on node %d of %d",
			ErrBadInput, pod.Namespace, pod.Name, pod.Node, len(s.Nodes))
	}
	return validateBudgets(pod, len(s.Budgets))
}

func validateBudgets(pod *Pod, budgets int) error {
	for _, b := range pod.Budgets {
		if b < 0 || b >= budgets {
			return fmt.Errorf("%w: pod %s/%s names budget %d of %d", ErrBadInput, pod.Namespace, pod.Name, b, budgets)
		}
	}
	return nil
}

func validateDomain(p *Preemptor, nodes int) error {
	switch r := p.Domain; {
	case r == nil:
		return nil
	case !p.Gang:
		return fmt.Errorf("%w: the pod %s requires a domain, which only gangs can", ErrBadInput, p.Key())
	case r.Key == "" || len(r.Of) != nodes:
		return fmt.Errorf("%w: %s requires a domain of the label %q and names the domains of %d of %d nodes", ErrBadInput, p.Key(), r.Key, len(r.Of), nodes)
	default:
		return nil
	}
}

func validateLevels(p *Preemptor, nodes int) error {
	if len(p.Preferred) > 0 && !p.Gang {
		return fmt.Errorf("%w: the pod %s prefers domains, which only gangs can", ErrBadInput, p.Key())
	}
	if p.LevelRule != LowerCost && p.LevelRule != NearerLevel {
		return fmt.Errorf("%w: %s has the level rule %q; supported are %q and %q", ErrBadInput, p.Key(), p.LevelRule, LowerCost, NearerLevel)
	}
	seen := make(map[string]bool)
	if p.Domain != nil {
		seen[p.Domain.Key] = true
	}
	for i := range p.Preferred {
		switch l := &p.Preferred[i]; {
		case l.Key == "" || len(l.Of) != nodes:
			return fmt.Errorf("%w: %s prefers a domain of the label %q and names the domains of %d of %d nodes", ErrBadInput, p.Key(), l.Key, len(l.Of), nodes)
		case seen[l.Key]:
			return fmt.Errorf("%w: %s names the label %q twice", ErrBadInput, p.Key(), l.Key)
		default:
			seen[l.Key] = true
		}
	}
	return nil
}

func validatePreemptor(p *Preemptor, dims int) error {
	if p.Order != OrderPriority && p.Order != OrderLostWork {
		return fmt.Errorf("%w: %s has the order %q; supported are %q and %q", ErrBadInput, p.Key(), p.Order, OrderPriority, OrderLostWork)
	}
	if p.Cascade != CascadeOff && p.Cascade != CascadeMeasure && p.Cascade != CascadeDecide {
		return fmt.Errorf("%w: %s has the cascade mode %q; supported are %q, %q and %q", ErrBadInput, p.Key(), p.Cascade, CascadeOff, CascadeMeasure, CascadeDecide)
	}
	if len(p.Devices) != 0 && len(p.Devices) != dims {
		return fmt.Errorf("%w: %s has %d amounts of devices for %d resources", ErrBadInput, p.Key(), len(p.Devices), dims)
	}
	if p.Mix != nil {
		if err := p.Mix.Check(dims); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrBadInput, p.Key(), err)
		}
	}
	if err := bands(p.Bands).validate(); err != nil {
		return err
	}
	if p.Restart < 0 {
		return fmt.Errorf("%w: %s has a restart cost of %d ns", ErrBadInput, p.Key(), p.Restart)
	}
	if p.Step < 0 || p.PodCost < 0 {
		return fmt.Errorf("%w: %s has a step of %d ns and a cost of %d ns for each pod", ErrBadInput, p.Key(), p.Step, p.PodCost)
	}
	return validateMembers(p, dims)
}

// validateMembers checks the classes of a preemptor, and MinCount.
func validateMembers(p *Preemptor, dims int) error {
	members := 0
	for c := range p.Classes {
		if len(p.Classes[c].Request) != dims {
			return fmt.Errorf("%w: class %d of %s has %d amounts for %d resources",
				ErrBadInput, c, p.Key(), len(p.Classes[c].Request), dims)
		}
		for r, v := range p.Classes[c].Request {
			if v < 0 {
				return fmt.Errorf("%w: class %d of %s asks for %d of resource %d", ErrBadInput, c, p.Key(), v, r)
			}
		}
		members += len(p.Classes[c].Members)
	}
	switch {
	case members == 0:
		return fmt.Errorf("%w: %s has no members", ErrBadInput, p.Key())
	case p.MinCount < 0 || p.MinCount > members:
		return fmt.Errorf("%w: %s asks for %d of %d members", ErrBadInput, p.Key(), p.MinCount, members)
	case !p.Gang && members != 1:
		return fmt.Errorf("%w: the pod %s has %d members", ErrBadInput, p.Key(), members)
	}
	return nil
}
