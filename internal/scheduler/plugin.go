package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	policylisters "k8s.io/client-go/listers/policy/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
)

// Name is the plugin's name in a scheduler's configuration.
const Name = "Reprieve"

// Plugin is Reprieve in one profile of a scheduler. The framework calls it; see the package documentation.
type Plugin struct {
	hub             *Hub
	args            *configv1alpha1.ReprieveArgs
	handle          framework.Framework
	budgets         policylisters.PodDisruptionBudgetLister
	priorityClasses schedulinglisters.PriorityClassLister
	// ignored remembers which resources the profile's filter leaves to others. Only scheduling cycles use it.
	ignored map[corev1.ResourceName]bool
	misfits misfits
}

var (
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PermitPlugin      = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// New makes the plugin for one profile. It has the shape of a plugin factory once the hub is bound; see
// [Hub.Factory].
func (h *Hub) newPlugin(ctx context.Context, given runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	// Planning runs the other members' PreFilter, which only the full framework offers.
	full, ok := handle.(framework.Framework)
	if !ok {
		return nil, fmt.Errorf("plugin %s needs a framework that runs PreFilter plugins, got %T", Name, handle)
	}
	args, err := configv1alpha1.Decode(given)
	if err != nil {
		return nil, fmt.Errorf("profile %s: plugin %s: %w", full.ProfileName(), Name, err)
	}
	if err := h.attach(ctx, full); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	h.profiles.add(full.ProfileName(), args, full.EventRecorder())
	factory := handle.SharedInformerFactory()
	return &Plugin{
		hub:             h,
		args:            args,
		handle:          full,
		budgets:         factory.Policy().V1().PodDisruptionBudgets().Lister(),
		priorityClasses: factory.Scheduling().V1().PriorityClasses().Lister(),
	}, nil
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// SignPod keeps members of a PodGroup out of upstream's opportunistic batching, whose cached node would
// bypass the gang's plan. Pods without one add nothing to their signature.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, ok := p.hub.groupOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a PodGroup are planned together")
	}
	return nil, nil
}

// decisionKey is where a cycle keeps its decision between PreFilter and PostFilter.
const decisionKey fwk.StateKey = Name + "/decision"

// turnedDownKey is where a cycle keeps that the queue of a gang leaves it no room. No other member would fare better.
const turnedDownKey fwk.StateKey = Name + "/turned-down"

type turnedDown struct{}

// Clone is part of StateData.
func (t turnedDown) Clone() fwk.StateData { return t }

// cycleDecision is a decision that PreFilter made and PostFilter carries out.
type cycleDecision struct {
	decision core.Decision
	view     *view
	pre      preemptor
}

// Clone is part of fwk.StateData; a decision is never changed.
func (made *cycleDecision) Clone() fwk.StateData { return made }

// planningKey marks the cycle states on which planning itself runs PreFilter plugins.
const planningKey fwk.StateKey = Name + "/planning"

type planningMark struct{}

// Clone is part of fwk.StateData.
func (m planningMark) Clone() fwk.StateData { return m }
