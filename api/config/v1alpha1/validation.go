package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// longestMinRuntime is the maximum of preemptMinRuntime and reclaimMinRuntime.
const longestMinRuntime = 99999 * time.Hour

// longestGrace is the maximum of maxGracePeriod.
const longestGrace = 99999 * time.Hour

// mostBands is the maximum number of priority bands.
const mostBands = 32

// Bounds of the typical workloads: mostWorkloads is their maximum number, and mostWeight is the
// maximum weight of each.
const mostWorkloads, mostWeight = 128, 1_000_000

// systemCritical is the lowest priority of system-critical pods.
const systemCritical = 2_000_000_000

// longestPermit is the maximum time that the scheduler's framework lets a pod wait at Permit.
const longestPermit = 15 * time.Minute

// Validate returns the errors of arguments with defaults filled in, each with the path of its
// field.
func Validate(args *ReprieveArgs) field.ErrorList {
	var errs field.ErrorList
	if args.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), args.APIVersion, []string{APIVersion}))
	}
	if args.Kind != Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), args.Kind, []string{Kind}))
	}
	for _, msg := range validation.IsQualifiedName(*args.QueueLabelKey) {
		errs = append(errs, field.Invalid(field.NewPath("queueLabelKey"), *args.QueueLabelKey, msg))
	}
	errs = append(errs, duration(field.NewPath("preemptMinRuntime"), args.PreemptMinRuntime, 0, longestMinRuntime)...)
	errs = append(errs, duration(field.NewPath("reclaimMinRuntime"), args.ReclaimMinRuntime, 0, longestMinRuntime)...)
	if m := *args.ReclaimResolveMethod; m != ResolveLCA && m != ResolveQueue {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimResolveMethod"), m, []ResolveMethod{ResolveLCA, ResolveQueue}))
	}
	if o := *args.LevelOrder; o != LowerCost && o != NearerLevel {
		errs = append(errs, field.NotSupported(field.NewPath("levelOrder"), o, []LevelOrder{LowerCost, NearerLevel}))
	}
	if modes := []CascadeMode{CascadeOff, CascadeMeasure, CascadeDecide}; !slices.Contains(modes, *args.Cascade) {
		errs = append(errs, field.NotSupported(field.NewPath("cascade"), *args.Cascade, modes))
	}
	errs = append(errs, victimOrder(field.NewPath("victimOrder"), args.VictimOrder, *args.Cascade)...)
	errs = append(errs, priorityBands(field.NewPath("priorityBands"), args.PriorityBands)...)
	errs = append(errs, placement(field.NewPath("placement"), &args.Placement)...)
	errs = append(errs, lostWork(field.NewPath("lostWork"), &args.LostWork)...)
	errs = append(errs, duration(field.NewPath("terminationTimeout"), args.TerminationTimeout, time.Second, 24*time.Hour)...)
	// The scheduler deletes victims with this grace period. With 0, the API server would remove a
	// pod before its kubelet has ended the containers.
	errs = append(errs, duration(field.NewPath("maxGracePeriod"), args.MaxGracePeriod, time.Second, longestGrace)...)
	gang := field.NewPath("gang")
	errs = append(errs, duration(gang.Child("permitTimeout"), args.Gang.PermitTimeout, time.Second, longestPermit)...)
	errs = append(errs, duration(gang.Child("settleTime"), args.Gang.SettleTime, 0, time.Minute)...)
	errs = append(errs, duration(gang.Child("staleTimeout"), args.Gang.StaleTimeout, 0, 24*time.Hour)...)
	errs = append(errs, duration(gang.Child("healTimeout"), args.Gang.HealTimeout, 0, time.Hour)...)
	errs = append(errs, duration(field.NewPath("queues").Child("deletedTimeout"), args.Queues.DeletedTimeout, 0, 24*time.Hour)...)
	errs = append(errs, validateGroups(field.NewPath("groups"), &args.Groups)...)
	drivers := field.NewPath("drivers")
	errs = append(errs, number(drivers.Child("withoutWorkers"), args.Drivers.WithoutWorkers, 10_000)...)
	errs = append(errs, duration(drivers.Child("createTimeout"), args.Drivers.CreateTimeout, time.Second, 24*time.Hour)...)
	errs = append(errs, duration(drivers.Child("workersTimeout"), args.Drivers.WorkersTimeout, time.Second, 24*time.Hour)...)
	retry := field.NewPath("retry")
	errs = append(errs, duration(retry.Child("initialBackoff"), args.Retry.InitialBackoff, time.Millisecond, time.Hour)...)
	errs = append(errs, duration(retry.Child("maxBackoff"), args.Retry.MaxBackoff, time.Millisecond, 24*time.Hour)...)
	errs = append(errs, duration(retry.Child("initialBindingBackoff"), args.Retry.InitialBindingBackoff, time.Millisecond, time.Hour)...)
	errs = append(errs, duration(retry.Child("maxBindingBackoff"), args.Retry.MaxBindingBackoff, time.Millisecond, 24*time.Hour)...)
	if args.Retry.MaxBindingBackoff.Duration < args.Retry.InitialBindingBackoff.Duration {
		errs = append(errs, field.Invalid(retry.Child("maxBindingBackoff"), args.Retry.MaxBindingBackoff.Duration.String(),
			"must not be less than initialBindingBackoff, "+args.Retry.InitialBindingBackoff.Duration.String()))
	}
	if args.Retry.MaxBackoff.Duration < args.Retry.InitialBackoff.Duration {
		errs = append(errs, field.Invalid(retry.Child("maxBackoff"), args.Retry.MaxBackoff.Duration.String(),
			"must not be less than initialBackoff, "+args.Retry.InitialBackoff.Duration.String()))
	}
	errs = append(errs, number(retry.Child("crashLimit"), args.Retry.CrashLimit, 100)...)
	search := field.NewPath("search")
	errs = append(errs, number(search.Child("packingMembers"), args.Search.PackingMembers, 64)...)
	errs = append(errs, number(search.Child("packingNodes"), args.Search.PackingNodes, 1024)...)
	errs = append(errs, number(search.Child("packingSteps"), args.Search.PackingSteps, 1_000_000)...)
	return errs
}

// victimOrder returns an error if a list of criteria is not valid for a cascade mode.
func victimOrder(path *field.Path, order []VictimCriterion, mode CascadeMode) field.ErrorList {
	all := VictimOrders(CascadeDecide)
	known := all[len(all)-1]
	for i, criterion := range order {
		switch {
		case !slices.Contains(known, criterion):
			return field.ErrorList{field.NotSupported(path.Index(i), criterion, known)}
		case criterion == Cascade && mode != CascadeDecide:
			return field.ErrorList{field.Invalid(path.Index(i), criterion, fmt.Sprintf("requires cascade: %s, which is %s", CascadeDecide, mode))}
		}
	}
	orders := VictimOrders(mode)
	if slices.ContainsFunc(orders, func(one []VictimCriterion) bool { return slices.Equal(one, order) }) {
		return nil
	}
	lists := make([]string, len(orders))
	for i, one := range orders {
		lists[i] = fmt.Sprint(one)
	}
	return field.ErrorList{field.Invalid(path, order, "must be "+strings.Join(lists, " or "))}
}

// priorityBands returns an error for each band that is empty, that overlaps another band, or that
// contains system-critical and other priorities.
func priorityBands(path *field.Path, bands []PriorityBand) (errs field.ErrorList) {
	if len(bands) > mostBands {
		return field.ErrorList{field.TooMany(path, len(bands), mostBands)}
	}
	for i, band := range bands {
		value := fmt.Sprintf("%d to %d", band.Min, band.Max)
		switch {
		case band.Min > band.Max:
			errs = append(errs, field.Invalid(path.Index(i), value, "min must not be greater than max"))
			continue
		case band.Min < systemCritical && band.Max >= systemCritical:
			errs = append(errs, field.Invalid(path.Index(i), value, fmt.Sprintf("must not have priorities below and above %d, the lowest system-critical one", systemCritical)))
		}
		for j, other := range bands[:i] {
			if band.Min <= other.Max && other.Min <= band.Max {
				errs = append(errs, field.Invalid(path.Index(i), value, fmt.Sprintf("overlaps %s, which is %d to %d", path.Index(j), other.Min, other.Max)))
				break
			}
		}
	}
	return errs
}

// placement returns the errors of the arguments about placement.
func placement(path *field.Path, args *PlacementArgs) (errs field.ErrorList) {
	if !isExtended(*args.Device) {
		errs = append(errs, field.Invalid(path.Child("device"), *args.Device, "must be an extended resource such as nvidia.com/gpu"))
	}
	if len(args.Workloads) > mostWorkloads {
		return append(errs, field.TooMany(path.Child("workloads"), len(args.Workloads), mostWorkloads))
	}
	usesDevices := false
	for i, workload := range args.Workloads {
		at := path.Child("workloads").Index(i)
		if workload.Weight < 1 || workload.Weight > mostWeight {
			errs = append(errs, field.Invalid(at.Child("weight"), workload.Weight, fmt.Sprintf("must be between 1 and %d", mostWeight)))
		}
		for _, name := range slices.Sorted(maps.Keys(workload.Requests)) {
			quantity := workload.Requests[name]
			if quantity.Sign() < 0 {
				errs = append(errs, field.Invalid(at.Child("requests").Key(name), quantity.String(), "must not be negative"))
			}
			if isExtended(name) && quantity.MilliValue()%1000 != 0 {
				errs = append(errs, field.Invalid(at.Child("requests").Key(name), quantity.String(), "must be a whole number"))
			}
			usesDevices = usesDevices || name == *args.Device && quantity.Sign() > 0
		}
	}
	if len(args.Workloads) > 0 && !usesDevices {
		errs = append(errs, field.Invalid(path.Child("workloads"), len(args.Workloads), "must have a workload that requests "+*args.Device))
	}
	return errs
}

// lostWork returns the errors of the arguments about lost work.
func lostWork(path *field.Path, args *LostWorkArgs) field.ErrorList {
	errs := duration(path.Child("restartCost"), args.RestartCost, 0, 24*time.Hour)
	errs = append(errs, duration(path.Child("step"), args.Step, 0, 24*time.Hour)...)
	errs = append(errs, duration(path.Child("podCost"), args.PodCost, 0, 24*time.Hour)...)
	for _, name := range slices.Sorted(maps.Keys(args.Weights)) {
		at, weight := path.Child("weights").Key(name), args.Weights[name]
		switch {
		case !isExtended(name):
			errs = append(errs, field.Invalid(at, name, "must be an extended resource such as nvidia.com/gpu; CPUs and memory count by the part of the node"))
		case weight.Sign() < 0 || weight.CmpInt64(1000) > 0:
			errs = append(errs, field.Invalid(at, weight.String(), "must be between 0 and 1000"))
		case weight.Cmp(*resource.NewMilliQuantity(weight.MilliValue(), resource.DecimalSI)) != 0:
			errs = append(errs, field.Invalid(at, weight.String(), "must be a multiple of 0.001"))
		}
	}
	return errs
}

func duration(path *field.Path, d *metav1.Duration, least, most time.Duration) field.ErrorList {
	if d.Duration < least || d.Duration > most {
		return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be between "+least.String()+" and "+most.String())}
	}
	return nil
}

func number(path *field.Path, n *int32, most int32) field.ErrorList {
	if *n < 0 || *n > most {
		return field.ErrorList{field.Invalid(path, *n, fmt.Sprintf("must be between 0 and %d", most))}
	}
	return nil
}
