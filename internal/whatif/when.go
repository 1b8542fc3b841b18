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
	// In has the topology domains that the members share if they start at AtTheLatest, the nearest
	// level first. It is empty for workloads without topology levels.
	In []Domain `json:"in,omitempty"`
	// Endless is the number of running pods that declare no end. It is 0 if AtTheLatest is set.
	Endless int `json:"endless,omitempty"`
	// Unread is the number of running pods whose end is unknown, because their Jobs are not in the
	// inventory.
	Unread int `json:"unread,omitempty"`
	// Levels has bounds for single topology domains, the nearest level first. It is empty if there
	// is room now or after pods terminate, and for workloads without topology levels.
	Levels []LevelBounds `json:"levels,omitempty"`

	// horizon is the decision for the time after all declared ends; nil if AtTheLatest is set.
	horizon *Step
}

// forecast derives bounds for the start of one pending workload.
type forecast struct {
	objects *inventory.Inventory
	cfg     *config.KubeSchedulerConfiguration
	// key names a pending pod of the workload.
	key types.NamespacedName
	// pods has the pods of the inventory.
	pods []*corev1.Pod
	// divided is the group whose members must share a value of labelDomain. It is nil if the
	// workload keeps the topology levels that its group has.
	divided *types.NamespacedName
	// told is called before each decision that the forecast makes.
	told func()
}

// When returns bounds for the start of a pending workload. step is the decision for the workload.
// When may make further decisions, for later times and for single topology domains. Before each of
// them, it calls told with the number of earlier ones; told may be nil.
func When(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, key types.NamespacedName, step *Step, told func(int)) (*Bounds, error) {
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	decided := 0
	f := &forecast{objects: objects, cfg: cfg, key: key, pods: pods, told: func() {
		if told != nil {
			told(decided)
		}
		decided++
	}}
	out, err := f.bounds(ctx, step)
	if err != nil {
		return nil, err
	}
	if out.Levels, err = f.levels(ctx, step, out); err != nil {
		return nil, err
	}
	return out, nil
}

// bounds returns bounds for the start of the workload, without bounds for single domains. step is
// the decision for the workload.
func (f *forecast) bounds(ctx context.Context, step *Step) (*Bounds, error) {
	now := f.objects.Taken.UTC()
	switch step.Outcome {
	case core.Fits:
		return &Bounds{AtTheLatest: &now, Then: "there is room as things are: " + step.Message, In: sharedDomains(step)}, nil
	case core.Waits, core.Preempts:
		return onceGone(f.pods, step, now), nil
	default:
	}
	out := &Bounds{}
	if step.RetryAt != nil {
		out.NotBefore, out.BecauseOf = step.RetryAt, lastProtection(step)
		then, err := f.decide(ctx, f.objects.At(step.RetryAt.Add(time.Nanosecond)))
		if err != nil {
			return nil, err
		}
		// At that time, the rules allow the eviction of each protected unit, but perhaps not of all
		// together.
		if isPlaced(&then) {
			out.end(*step.RetryAt, "protections have ended by then, and it may preempt; its victims take their grace periods on top", &then)
			return out, nil
		}
	}
	err := f.latest(ctx, step, out)
	if err == nil {
		err = f.onceStale(ctx, out)
	}
	if err == nil && out.NotBefore != nil && out.AtTheLatest != nil && out.AtTheLatest.Before(*out.NotBefore) {
		// Declared ends of other pods, or gangs that become stale, give the workload room before
		// the protections end. So it may start earlier.
		out.NotBefore, out.BecauseOf = nil, ""
	}
	return out, err
}

// end sets the latest start. The argument then is the reason, and step is the decision for that
// time.
func (b *Bounds) end(at time.Time, then string, step *Step) {
	at = at.UTC()
	b.AtTheLatest, b.Then, b.In = &at, then, sharedDomains(step)
	b.Endless, b.Unread, b.horizon = 0, 0, nil
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
			// This pod is not deleted yet. Assume that the scheduler deletes it at once.
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
	return &Bounds{
		AtTheLatest: &at, In: sharedDomains(step),
		Then: fmt.Sprintf("pods in the way are at the end of their grace periods, pod %s the last of them, if their nodes answer", keyOf(last.pod)),
	}
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

// ends returns the ends of the running pods that have a declared end, sorted by time. It counts all
// other running pods: in out.Unread if their Job is unknown, and in out.Endless otherwise.
func (f *forecast) ends(out *Bounds) ([]end, error) {
	var ends []end
	for _, pod := range f.pods {
		if pod.Spec.NodeName == "" || hasFinished(pod) {
			continue
		}
		last, state, err := declaredEnd(f.objects, pod)
		switch {
		case err != nil:
			return nil, err
		case state == endDeclared:
			ends = append(ends, last)
		case state == endUnknown:
			out.Unread++
		default:
			out.Endless++
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return a.at.Compare(b.at) })
	return ends, nil
}

// endState is the information that the inventory has about the end of a pod.
type endState int

const (
	// endSilent means that neither the pod nor its Job declares an end.
	endSilent endState = iota
	// endDeclared means that the pod or its Job declares an end.
	endDeclared
	// endUnknown means that the pod declares no end, and its Job is not in the inventory.
	endUnknown
)

// declaredEnd returns the first end that a pod or its Job declares.
func declaredEnd(objects *inventory.Inventory, pod *corev1.Pod) (end, endState, error) {
	own, has := endOf(pod)
	theirs, state, err := endByJob(objects, pod)
	switch {
	case err != nil:
		return end{}, endSilent, err
	case state == endDeclared && (!has || theirs.at.Before(own.at)):
		return theirs, endDeclared, nil
	case has:
		return own, endDeclared, nil
	default:
		return end{}, state, nil
	}
}

// endOf returns the end that the pod's activeDeadlineSeconds declares. It returns false if there is
// none.
func endOf(pod *corev1.Pod) (end, bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return end{}, false
	}
	return end{at: pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second), pod: pod}, true
}

// endByJob returns the end that the deadline of a pod's Job declares. The pod is deleted at the
// deadline and ends after its grace period.
func endByJob(objects *inventory.Inventory, pod *corev1.Pod) (end, endState, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" || !strings.HasPrefix(owner.APIVersion, batchv1.GroupName+"/") {
		return end{}, endSilent, nil
	}
	found, exists := objects.Find(inventory.Jobs, pod.Namespace, owner.Name)
	if !exists {
		return end{}, endUnknown, nil
	}
	var job batchv1.Job
	if err := found.Into(&job); err != nil {
		return end{}, endSilent, err
	}
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil {
		return end{}, endSilent, nil
	}
	at := job.Status.StartTime.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds)*time.Second + graceOf(pod))
	return end{at: at, pod: pod, job: pod.Namespace + "/" + job.Name}, endDeclared, nil
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

// decide makes a decision for the workload with the given objects.
func (f *forecast) decide(ctx context.Context, objects *inventory.Inventory) (Step, error) {
	f.told()
	cluster, err := newCluster(ctx, objects, f.cfg, f.view)
	if err != nil {
		return Step{}, err
	}
	defer cluster.Close()
	return cluster.Decide(ctx, f.key)
}

// isPlaced reports whether a decision places the workload, at once or after other pods have ended.
func isPlaced(step *Step) bool { return step.Outcome != core.Infeasible && step.Outcome != Held }

// latest sets the latest start, which holds if no other work arrives. It looks for the first
// declared end of a running pod that gives the workload room. step is the decision for now.
func (f *forecast) latest(ctx context.Context, step *Step, out *Bounds) error {
	ends, err := f.ends(out)
	if err != nil {
		return err
	}
	out.horizon = step
	var first *Step
	var failed error
	fits := func(n int) bool {
		if failed != nil {
			return true
		}
		var then Step
		if then, failed = f.decide(ctx, f.afterEnds(ends[:n])); failed != nil {
			return true
		}
		if !isPlaced(&then) {
			if n == len(ends) {
				out.horizon = &then
			}
			return false
		}
		first = &then
		return true
	}
	if len(ends) == 0 || !fits(len(ends)) {
		return failed
	}
	// The binary search returns the end of the last call of fits that found room. So first is the
	// decision for this end.
	n := 1 + sort.Search(len(ends)-1, func(i int) bool { return fits(i + 1) })
	if failed != nil {
		return failed
	}
	out.end(ends[n-1].at, ends[n-1].because(), first)
	return nil
}

// afterEnds returns the inventory at the time of the last of the given ends, without the ended
// pods. ends is sorted by time.
func (f *forecast) afterEnds(ends []end) *inventory.Inventory {
	gone := make(map[types.UID]bool)
	for _, e := range ends {
		gone[e.pod.UID] = true
	}
	at := f.objects.Taken
	if last := ends[len(ends)-1].at; last.After(at) {
		at = last
	}
	return f.objects.Without(inventory.Pods, gone).At(at)
}
