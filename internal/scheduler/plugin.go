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

// Name is the name of the plugin.
const Name = configv1alpha1.PluginName

// Plugin is Reprieve in one profile of a scheduler. The framework calls it; see the package
// documentation.
type Plugin struct {
	sched           *Scheduler
	args            *configv1alpha1.ReprieveArgs
	handle          framework.Framework
	budgets         policylisters.PodDisruptionBudgetLister
	priorityClasses schedulinglisters.PriorityClassLister
	claims          corelisters.PersistentVolumeClaimLister
	// resources reports which resources of a request the profile counts.
	resources     snapshot.ResourceFilter
	unschedulable unschedulable
	refusals      noRoomCache
	// scoring is the criterion of fragmentation as Score uses it; nil if it is off.
	scoring *scoring
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

// newPlugin returns the plugin for one profile.
func newPlugin(sched *Scheduler, args *configv1alpha1.ReprieveArgs, handle framework.Framework) *Plugin {
	factory := handle.SharedInformerFactory()
	return &Plugin{
		sched:           sched,
		args:            args,
		handle:          handle,
		budgets:         factory.Policy().V1().PodDisruptionBudgets().Lister(),
		priorityClasses: factory.Scheduling().V1().PriorityClasses().Lister(),
		claims:          factory.Core().V1().PersistentVolumeClaims().Lister(),
		resources:       filters.NewResources(handle),
		scoring:         scoringOf(&args.Placement),
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// SignPod excludes members of a PodGroup from upstream's opportunistic batching, because its cached
// node would bypass the gang's plan. Drivers are excluded, too. Other pods add nothing to their
// signature.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, ok := p.sched.groupOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a PodGroup are planned together")
	}
	if _, ok := p.sched.driverOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "other drivers may block a driver")
	}
	return nil, nil
}

// decisionKey is the key of a cycle's decision, from PreFilter to PostFilter.
const decisionKey fwk.StateKey = Name + "/decision"

// rejectionKey is the key of the reason why PostFilter must not preempt in this cycle. Another
// member of the gang would be rejected for the same reason. For example, the queue has no room, it
// is not the workload's turn, or a member is about to return.
const rejectionKey fwk.StateKey = Name + "/turned-down"

const (
	// queueInTheWay is the reason for a workload that its queue blocks, or that must wait for its
	// turn.
	queueInTheWay = "the queue is in the way"
	// membersReturn is the reason for a gang that waits until the framework has forgotten the nodes
	// that its members gave up.
	membersReturn = "members are on their way back"
	// notPlanned is the reason for a gang with too few members that can be scheduled. It is also
	// the reason for a member that was rejected before the gang was planned.
	notPlanned = "the gang has not been planned"
)

// rejection holds the reason.
type rejection struct{ why string }

// rejectionIn returns the reason why a cycle must not preempt; "" if there is none.
func rejectionIn(state fwk.CycleState) string {
	data, err := state.Read(rejectionKey)
	if err != nil {
		return ""
	}
	t, _ := data.(rejection)
	return t.why
}

// Clone is part of StateData.
func (t rejection) Clone() fwk.StateData { return t }

// cycleDecision is a decision that PreFilter made and PostFilter carries out.
type cycleDecision struct {
	decision core.Decision
	// victims are the pods that the decision evicts, as the framework knows them, node by node.
	victims []*corev1.Pod
	view    *decisionView
	pre     preemptor
	// related are terminating pods, on any node, that affect the preemptor by more than their room.
	// The decision counts them as gone, but the filters of a cycle do not.
	related []*corev1.Pod
	// repeated is true if the decision was copied from an earlier one for an equal pod.
	repeated bool
	// inputs is the number of the recorded inputs of the decision; 0 if they are not recorded.
	inputs uint64
}

// Clone is part of fwk.StateData. A decision is never changed.
func (made *cycleDecision) Clone() fwk.StateData { return made }
