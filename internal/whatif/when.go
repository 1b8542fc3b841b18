package whatif

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// Bounds are bounds for the start of a pending workload. They are derived only from declared times
// and never estimated.
type Bounds struct {
	// NotBefore is the earliest start. It is nil if that is unknown. BecauseOf is the reason for
	// this bound.
	NotBefore *time.Time `json:"notBefore,omitempty"`
	BecauseOf string     `json:"becauseOf,omitempty"`
	// AtTheLatest is the latest start if no other work arrives. It is nil if that is unknown. The
	// field Then is the reason for this bound.
	AtTheLatest *time.Time `json:"atTheLatest,omitempty"`
	Then        string     `json:"then,omitempty"`
	// Endless is the number of running pods that declare no end. It is 0 if AtTheLatest is set.
	Endless int `json:"endless,omitempty"`
	// Unread is the number of running pods whose end is unknown, because their Jobs are not in the
	// inventory.
	Unread int `json:"unread,omitempty"`
}

// When returns bounds for the start of a pending workload. step is the decision for the workload.
// When may make further decisions for later times. It calls told before each decision about a
// declared end, with the number of earlier such decisions; told may be nil.
func When(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, key types.NamespacedName, step *Step, told func(int)) (*Bounds, error) {
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	now := objects.Taken.UTC()
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
		then, err := decideAt(ctx, objects.At(step.RetryAt.Add(time.Nanosecond)), cfg, key)
		if err != nil {
			return nil, err
		}
		// At that time, each protected unit may be evicted, but perhaps not all of them together.
		if isPlaced(&then) {
			out.AtTheLatest, out.Then = step.RetryAt, "protections have ended by then, and it may preempt; its victims take their grace periods on top"
			return out, nil
		}
	}
	if out, err = latest(ctx, objects, cfg, key, pods, out, told); err == nil {
		err = onceStale(ctx, objects, cfg, key, out)
	}
	if err == nil && out.NotBefore != nil && out.AtTheLatest != nil && out.AtTheLatest.Before(*out.NotBefore) {
		// Declared ends of other pods, or gangs that become stale, give the workload room before
		// the protections end. So it may start earlier.
		out.NotBefore, out.BecauseOf = nil, ""
	}
	return out, err
}

// onceGone returns bounds for a workload that waits for victims and terminating pods. The latest
// start is the end of the last grace period, if the nodes respond. The bounds are empty if the
// workload waits for no pods.
func onceGone(pods []*corev1.Pod, step *Step, now time.Time) *Bounds {
	victims := make(map[string]bool)
	for _, v := range step.Victims {
		for _, pod := range v.Pods {
			victims[pod.UID] = true
		}
	}
	var last end
	goes := func(pod *corev1.Pod, at time.Time) {
		if last.pod == nil || at.After(last.at) {
			last = end{at: at, pod: pod}
		}
	}
	for _, pod := range pods {
		if victims[string(pod.UID)] {
			goes(pod, now.Add(min(graceOf(pod), step.maxGrace)))
		}
	}
	for _, pod := range step.leaving {
		if pod.DeletionTimestamp != nil {
			goes(pod, pod.DeletionTimestamp.Time)
		} else {
			// The scheduler will delete this pod at once.
			goes(pod, now.Add(min(graceOf(pod), step.maxGrace)))
		}
	}
	if last.pod == nil {
		return &Bounds{}
	}
	at := last.at
	if at.Before(now) {
		at = now
	}
	at = at.UTC()
	return &Bounds{AtTheLatest: &at, Then: fmt.Sprintf("pods in the way are at the end of their grace periods, pod %s the last of them, if their nodes answer", keyOf(last.pod))}
}

// lastProtection describes the protection whose end gives the workload room. A step names only a
// few protections, and this protection may not be among them.
func lastProtection(step *Step) string {
	// RetryAt is the first nanosecond after the end of the protection.
	i := slices.IndexFunc(step.Protected, func(p core.ProtectedUnit) bool { return p.Until == step.RetryAt.UnixNano()-1 })
	if i < 0 {
		return "protections are in the way until then"
	}
	last := &step.Protected[i]
	by := string(last.Rule)
	if last.Queue != "" {
		by += " of queue " + last.Queue
	}
	return fmt.Sprintf("%s protects %s/%s", by, last.Namespace, last.Name)
}

// end is the latest time when a running pod has ended, as declared by the pod or by its Job.
type end struct {
	at  time.Time
	pod *corev1.Pod
	// job is the name of the Job that declares the deadline. It is empty if the pod declares it.
	job string
}

// declared returns the ends of the pods that have a declared end. Other pods are counted in
// out.Endless, or in out.Unread if their Job is unknown.
func declared(objects *inventory.Inventory, pods []*corev1.Pod, out *Bounds) ([]end, error) {
	var ends []end
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || hasFinished(pod) {
			continue
		}
		own, has := endOf(pod)
		theirs, state, err := endByJob(objects, pod)
		switch {
		case err != nil:
			return nil, err
		case state == jobDeclares && (!has || theirs.at.Before(own.at)):
			ends = append(ends, theirs)
		case has:
			ends = append(ends, own)
		case state == jobUnknown:
			out.Unread++
		default:
			out.Endless++
		}
	}
	return ends, nil
}

// endOf returns the end that the pod's activeDeadlineSeconds declares. It returns false if there is
// none.
func endOf(pod *corev1.Pod) (end, bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return end{}, false
	}
	return end{at: pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second), pod: pod}, true
}

// jobState is the information that the inventory has about a pod's Job.
type jobState int

const (
	// jobSilent means that the pod has no Job, or that the Job declares no deadline.
	jobSilent jobState = iota
	// jobDeclares means that the Job declares a deadline.
	jobDeclares
	// jobUnknown means that the Job is not in the inventory.
	jobUnknown
)

// endByJob returns the end that the deadline of a pod's Job declares. The pod is deleted at the
// deadline and ends after its grace period.
func endByJob(objects *inventory.Inventory, pod *corev1.Pod) (end, jobState, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" || !strings.HasPrefix(owner.APIVersion, batchv1.GroupName+"/") {
		return end{}, jobSilent, nil
	}
	found, exists := objects.Find(inventory.Jobs, pod.Namespace, owner.Name)
	if !exists {
		return end{}, jobUnknown, nil
	}
	var job batchv1.Job
	if err := found.Into(&job); err != nil {
		return end{}, jobSilent, err
	}
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil {
		return end{}, jobSilent, nil
	}
	at := job.Status.StartTime.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds)*time.Second + graceOf(pod))
	return end{at: at, pod: pod, job: pod.Namespace + "/" + job.Name}, jobDeclares, nil
}

// graceOf returns the grace period in the pod's spec, limited to the longest time.Duration.
func graceOf(pod *corev1.Pod) time.Duration {
	seconds := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	return time.Duration(min(seconds, int64(math.MaxInt64/time.Second))) * time.Second
}

// because returns the reason for the end as text.
func (e *end) because() string {
	if e.job == "" {
		return fmt.Sprintf("activeDeadlineSeconds of pod %s ends it, if nothing else comes", keyOf(e.pod))
	}
	return fmt.Sprintf("activeDeadlineSeconds of Job %s ends pod %s, whose grace period is over by then, if nothing else comes", e.job, keyOf(e.pod))
}

// decideAt makes a decision for the workload of a pending pod with the given objects.
func decideAt(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, key types.NamespacedName) (Step, error) {
	cluster, err := New(ctx, objects, cfg)
	if err != nil {
		return Step{}, err
	}
	defer cluster.Close()
	return cluster.Decide(ctx, key)
}

// isPlaced reports whether a decision places the workload, at once or after other pods have ended.
func isPlaced(step *Step) bool { return step.Outcome != core.Infeasible && step.Outcome != Held }

// latest sets the latest start, which holds if no other work arrives. It looks for the first
// declared end of a running pod that gives the workload room.
func latest(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, key types.NamespacedName, pods []*corev1.Pod, out *Bounds, told func(int)) (*Bounds, error) {
	ends, err := declared(objects, pods, out)
	if err != nil {
		return nil, err
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
		var step Step
		step, failed = decideAt(ctx, objects.Without(inventory.Pods, gone).At(at), cfg, key)
		return failed != nil || isPlaced(&step)
	}
	if len(ends) == 0 || !fits(len(ends)) {
		return out, failed
	}
	n := 1 + sort.Search(len(ends)-1, func(i int) bool { return fits(i + 1) })
	if failed != nil {
		return nil, failed
	}
	at := ends[n-1].at.UTC()
	out.Endless, out.Unread = 0, 0
	out.AtTheLatest, out.Then = &at, ends[n-1].because()
	return out, nil
}
