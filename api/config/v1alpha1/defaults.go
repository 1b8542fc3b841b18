package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// SetDefaults fills in the defaults of omitted fields.
func SetDefaults(args *ReprieveArgs) {
	args.APIVersion, args.Kind = APIVersion, Kind
	fill(&args.WorkloadAware, true)
	fill(&args.Asynchronous, true)
	fill(&args.PreemptionToleration, true)
	fill(&args.QueueLabelKey, "reprieve.dev/queue")
	fill(&args.PreemptMinRuntime, metav1.Duration{})
	fill(&args.ReclaimMinRuntime, metav1.Duration{})
	fill(&args.ReclaimResolveMethod, ResolveLCA)
	fill(&args.Cascade, CascadeOff)
	if len(args.VictimOrder) == 0 {
		args.VictimOrder = VictimOrders(*args.Cascade)[0]
	}
	fill(&args.LevelOrder, LowerCost)
	fill(&args.Placement.Device, "nvidia.com/gpu")
	fill(&args.LostWork.RestartCost, metav1.Duration{})
	fill(&args.LostWork.Step, metav1.Duration{Duration: 5 * time.Minute})
	fill(&args.LostWork.PodCost, metav1.Duration{Duration: time.Hour})
	fill(&args.TerminationTimeout, metav1.Duration{Duration: 5 * time.Minute})
	fill(&args.MaxGracePeriod, metav1.Duration{Duration: time.Hour})
	fill(&args.Gang.PermitTimeout, metav1.Duration{Duration: time.Minute})
	fill(&args.Gang.SettleTime, metav1.Duration{Duration: 100 * time.Millisecond})
	fill(&args.Gang.StaleTimeout, metav1.Duration{Duration: time.Minute})
	fill(&args.Gang.HealTimeout, metav1.Duration{Duration: 20 * time.Second})
	fill(&args.Queues.Required, false)
	fill(&args.Queues.DeletedTimeout, metav1.Duration{Duration: 10 * time.Minute})
	fill(&args.Groups.OptIn, OptInAnnotated)
	fill(&args.Drivers.WithoutWorkers, 1)
	fill(&args.Drivers.CreateTimeout, metav1.Duration{Duration: time.Minute})
	fill(&args.Drivers.WorkersTimeout, metav1.Duration{Duration: 10 * time.Minute})
	fill(&args.Retry.InitialBackoff, metav1.Duration{Duration: time.Second})
	fill(&args.Retry.MaxBackoff, metav1.Duration{Duration: 30 * time.Second})
	fill(&args.Retry.InitialBindingBackoff, metav1.Duration{Duration: time.Minute})
	fill(&args.Retry.MaxBindingBackoff, metav1.Duration{Duration: 30 * time.Minute})
	fill(&args.Retry.CrashLimit, 3)
	fill(&args.Search.PackingMembers, 16)
	fill(&args.Search.PackingNodes, 64)
	fill(&args.Search.PackingSteps, 4000)
}

func fill[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
