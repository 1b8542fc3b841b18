package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/filters"
	"github.com/reprieve-dev/reprieve/internal/scoring"
	"github.com/reprieve-dev/reprieve/internal/snapshot"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// Name is the name of the plugin.
const Name = configv1alpha1.PluginName

// Plugin is Reprieve's plugin in one profile of a scheduler. See the package documentation for its
// extension points.
type Plugin struct {
	sched           *Scheduler
	args            *configv1alpha1.ReprieveArgs
	handle          framework.Framework
	budgets         policylisters.PodDisruptionBudgetLister
	priorityClasses schedulinglisters.PriorityClassLister
	claims          corelisters.PersistentVolumeClaimLister
	// resources selects the requested resources that the profile counts.
	resources     snapshot.ResourceFilter
	unschedulable unschedulable
	refusals      noRoomCache
	// scorer computes the criterion of fragmentation for Score; nil if the profile does not use
	// it.
	scorer *scoring.Scorer
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
		scorer:          scoring.New(&args.Placement),
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// SignPod returns no signature for members of a PodGroup and for drivers, which excludes them from
// kube-scheduler's opportunistic batching. The batching would use a cached node and bypass the
// gang's plan. For other pods, SignPod adds nothing to the signature.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, ok := p.sched.index.GroupOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a PodGroup are planned together")
	}
	if _, ok := p.sched.index.DriverOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "other drivers may block a driver")
	}
	return nil, nil
}

// decisionKey is the key of the decision in the state of a cycle. PreFilter writes it, and
// PostFilter reads it.
const decisionKey fwk.StateKey = Name + "/decision"

// rejectionKey is the key, in the state of a cycle, of the reason why PostFilter must not preempt.
// Such a reason concerns the whole workload, so it would also reject the other members of a gang.
// For example, the queue has no room, it is not the workload's turn, or a member is about to return
// to the queue.
const rejectionKey fwk.StateKey = Name + "/turned-down"

const (
	// queueInTheWay is the reason for a workload that its queue blocks, or that waits for its turn.
	queueInTheWay = "the queue is in the way"
	// membersReturn is the reason for a gang whose members have given up their nodes, until the
	// framework has forgotten these nodes.
	membersReturn = "members are on their way back"
	// groupHasChanged is the reason for a pod whose group has changed, until the queue has the new
	// version of the pod.
	groupHasChanged = "the group of the pod has changed"
	// notPlanned is the reason for a gang if too few of its members can be scheduled. It is also
	// the reason for a member that was rejected in its cycle before the gang was planned.
	notPlanned = "the gang has not been planned"
)

// rejection holds the reason why PostFilter must not preempt.
type rejection struct{ why string }

// rejectionIn returns the reason in a cycle's state why PostFilter must not preempt; "" for none.
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

// cycleDecision is a decision that PreFilter makes and PostFilter applies.
type cycleDecision struct {
	decision core.Decision
	// victims are the pods that the decision evicts, grouped by node, in the version of the
	// snapshot.
	victims []*corev1.Pod
	view    *decisionView
	pre     preemptor
	// related are terminating pods on any node that affect the preemptor by more than their room,
	// for example by affinity. The decision counts them as gone, but the filters of the cycle do
	// not.
	related []*corev1.Pod
	// repeated is true if the decision is a cached one; see noRoomCache.
	repeated bool
	// inputs is the number of the record with the decision's inputs; 0 if they are not recorded.
	inputs uint64
}

// Clone is part of fwk.StateData. It returns the same decision, because a decision never changes.
func (made *cycleDecision) Clone() fwk.StateData { return made }

// logOfPreemptor returns a logger with the key "preemptor" for a workload that needs room.
func (p *Plugin) logOfPreemptor(ctx context.Context, key workload.Key) klog.Logger {
	return klog.FromContext(ctx).WithValues("preemptor", klog.KRef(key.Namespace, key.Name), "profile", p.handle.ProfileName())
}
