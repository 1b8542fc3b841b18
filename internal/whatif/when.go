package whatif

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// Bounds say when a pending workload starts, as far as anything is known: nothing in them is a guess.
type Bounds struct {
	// NotBefore is the earliest moment, with BecauseOf; nil where it may be at any time.
	NotBefore *time.Time `json:"notBefore,omitempty"`
	BecauseOf string     `json:"becauseOf,omitempty"`
	// AtTheLatest is when it starts if nothing else comes, with Then; nil where nothing says so.
	AtTheLatest *time.Time `json:"atTheLatest,omitempty"`
	Then        string     `json:"then,omitempty"`
	// Endless counts the pods that run and declare no end, where nothing is known of the latest moment.
	Endless int `json:"endless,omitempty"`
}

// When bounds the moment at which the workload of some pending pods starts.
func When(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, key types.NamespacedName, step *Step, told func(int)) (*Bounds, error) {
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	now := objects.Taken
	switch step.Outcome {
	case core.Fits:
		return &Bounds{AtTheLatest: &now, Then: "there is room as things are: " + step.Message}, nil
	case core.Waits, core.Preempts:
		return onceGone(pods, step, now), nil
	default:
	}
	out := &Bounds{}
	if step.RetryAt != nil {
		out.NotBefore, out.BecauseOf = step.RetryAt, lastProtection(step)
		out.AtTheLatest, out.Then = step.RetryAt, "protections have ended by then, and it may preempt; its victims take their grace periods on top"
		return out, nil
	}
	return latest(ctx, objects, cfg, key, pods, out, told)
}

// onceGone is when those have gone that a placement waits for: at the end of their grace periods, if their nodes answer.
func onceGone(pods []*corev1.Pod, step *Step, now time.Time) *Bounds {
	victims := make(map[string]bool)
	for _, v := range step.Victims {
		for _, pod := range v.Pods {
			victims[pod.UID] = true
		}
	}
	nodes := make(map[string]bool)
	for _, place := range step.Placements {
		nodes[place.Node] = true
	}
	last, which := now, ""
	for _, pod := range pods {
		var end time.Time
		switch {
		case victims[string(pod.UID)]:
			end = now.Add(time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second)
		case pod.DeletionTimestamp != nil && nodes[pod.Spec.NodeName]:
			end = pod.DeletionTimestamp.Time
		default:
			continue
		}
		if which == "" || end.After(last) {
			last, which = end, keyOf(pod).String()
		}
	}
	last = last.UTC()
	return &Bounds{AtTheLatest: &last, Then: fmt.Sprintf("pods in the way are at the end of their grace periods, pod %s the last of them, if their nodes answer", which)}
}

// lastProtection names the protection that ends last of those that have to.
func lastProtection(step *Step) string {
	var last *core.ProtectedUnit
	for i := range step.Protected {
		p := &step.Protected[i]
		if p.Until != 0 && p.Until <= step.RetryAt.UnixNano() && (last == nil || p.Until > last.Until) {
			last = p
		}
	}
	if last == nil {
		return "protections are in the way until then"
	}
	by := string(last.Rule)
	if last.Queue != "" {
		by += " of queue " + last.Queue
	}
	return fmt.Sprintf("%s protects %s/%s", by, last.Namespace, last.Name)
}

// latest looks for the first declared end of pods that run after which there would be room, if nothing else came.
func latest(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, key types.NamespacedName, pods []*corev1.Pod, out *Bounds, told func(int)) (*Bounds, error) {
	type end struct {
		at  time.Time
		pod *corev1.Pod
	}
	var ends []end
	for _, pod := range pods {
		switch {
		case pod.Spec.NodeName == "" || hasFinished(pod):
		case pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil:
			out.Endless++
		default:
			ends = append(ends, end{pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second), pod})
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return a.at.Compare(b.at) })
	decided := 0
	var failed error
	fits := func(n int) bool {
		if failed != nil {
			return true
		}
		if told != nil {
			told(decided)
		}
		decided++
		gone := make(map[types.UID]bool)
		for _, e := range ends[:n] {
			gone[e.pod.UID] = true
		}
		at := objects.Taken
		if ends[n-1].at.After(at) {
			at = ends[n-1].at
		}
		var cluster *Cluster
		if cluster, failed = New(ctx, objects.Without(inventory.Pods, gone).At(at), cfg); failed != nil {
			return true
		}
		defer cluster.Close()
		var step Step
		step, failed = cluster.Decide(ctx, key)
		return failed != nil || step.Outcome != core.Infeasible && step.Outcome != Held
	}
	if len(ends) == 0 || !fits(len(ends)) {
		return out, failed
	}
	n := 1 + sort.Search(len(ends)-1, func(i int) bool { return fits(i + 1) })
	if failed != nil {
		return nil, failed
	}
	at := ends[n-1].at.UTC()
	out.Endless = 0
	out.AtTheLatest = &at
	out.Then = fmt.Sprintf("activeDeadlineSeconds of pod %s ends it, if nothing else comes", keyOf(ends[n-1].pod))
	return out, nil
}
