package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
)

// Name is what the plugin answers to.
const Name = configv1alpha1.PluginName

// Plugin is Reprieve in one profile of a scheduler. The framework calls it; see the package documentation.
type Plugin struct {
	hub             *Hub
	args            *configv1alpha1.ReprieveArgs
	handle          framework.Framework
	budgets         policylisters.PodDisruptionBudgetLister
	priorityClasses schedulinglisters.PriorityClassLister
	claims          corelisters.PersistentVolumeClaimLister
	// resources tells which resources of a request the profile counts.
	resources     snapshot.ResourceFilter
	unschedulable unschedulable
	refusals      refusals
}

var (
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PermitPlugin      = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// newPlugin makes the plugin for one profile.
func newPlugin(hub *Hub, args *configv1alpha1.ReprieveArgs, handle framework.Framework) *Plugin {
	factory := handle.SharedInformerFactory()
	return &Plugin{
		hub:             hub,
		args:            args,
		handle:          handle,
		budgets:         factory.Policy().V1().PodDisruptionBudgets().Lister(),
		priorityClasses: factory.Scheduling().V1().PriorityClasses().Lister(),
		claims:          factory.Core().V1().PersistentVolumeClaims().Lister(),
		resources:       filters.NewResources(handle),
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// SignPod keeps members of a PodGroup out of upstream's opportunistic batching, whose cached node would
// bypass the gang's plan. Pods without one add nothing to their signature.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, ok := p.hub.groupOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a PodGroup are planned together")
	}
	if _, ok := p.hub.driverOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "other drivers may block a driver")
	}
	return nil, nil
}

// decisionKey is where a cycle keeps its decision between PreFilter and PostFilter.
const decisionKey fwk.StateKey = Name + "/decision"

// turnedDownKey is where a cycle keeps that nothing is to be made for its workload, and that no other member of a gang would fare
// better: its queue leaves it no room, it is not its turn, or a member is on its way back.
const turnedDownKey fwk.StateKey = Name + "/turned-down"

const (
	// queueInTheWay is said of what its queue turns down, or that it is not the turn of.
	queueInTheWay = "the queue is in the way"
	// membersReturn is said of a gang that has not got back yet what its members have given up.
	membersReturn = "members are on their way back"
)

// turnedDown says why.
type turnedDown struct{ why string }

// turnedDownIn is why a cycle has been turned down; "" where it has not.
func turnedDownIn(state fwk.CycleState) string {
	data, err := state.Read(turnedDownKey)
	if err != nil {
		return ""
	}
	t, _ := data.(turnedDown)
	return t.why
}

// Clone is part of StateData.
func (t turnedDown) Clone() fwk.StateData { return t }

// cycleDecision is a decision that PreFilter made and PostFilter carries out.
type cycleDecision struct {
	decision core.Decision
	// victims are the pods that the decision takes, as the framework knows them, node by node.
	victims []*corev1.Pod
	view    *view
	pre     preemptor
	// related are the leaving pods that matter to the preemptor by more than their room, wherever
	// they are. The decision counts them as gone, and the filters of a cycle do not.
	related []*corev1.Pod
	// repeated is true for what was found for an equal pod before.
	repeated bool
	// inputs is where it is written what the decision went by; 0 where it is not.
	inputs uint64
}

// Clone is part of fwk.StateData; a decision is never changed.
func (made *cycleDecision) Clone() fwk.StateData { return made }
