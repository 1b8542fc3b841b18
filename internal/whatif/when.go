package whatif

import (
	"context"
	"fmt"
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
	// Unread counts those of which it is not known, because their Jobs are not among the objects.
	Unread int `json:"unread,omitempty"`
}

// When bounds the moment at which the workload of some pending pods starts.
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
		// Each of those that are protected may go by then. All that it needs together may still be too many.
		if isPlaced(&then) {
			out.AtTheLatest, out.Then = step.RetryAt, "protections have ended by then, and it may preempt; its victims take their grace periods on top"
			return out, nil
		}
	}
	if out, err = latest(ctx, objects, cfg, key, pods, out, told); err == nil {
		err = onceStale(ctx, objects, cfg, key, out)
	}
	if err == nil && out.NotBefore != nil && out.AtTheLatest != nil && out.AtTheLatest.Before(*out.NotBefore) {
		// Others end before the protections do.
		out.NotBefore, out.BecauseOf = nil, ""
	}
	return out, err
}

// onceGone is when those have gone that a placement waits for: at the end of their grace periods, if their nodes answer. Nothing is
// known of it where it waits for none.
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
			goes(pod, now.Add(graceOf(pod)))
		}
	}
	for _, pod := range step.leaving {
		if pod.DeletionTimestamp != nil {
			goes(pod, pod.DeletionTimestamp.Time)
		} else {
			// It is about to be told.
			goes(pod, now.Add(graceOf(pod)))
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

// lastProtection names the protection with the end of which there is room. A step names a few of those in the way, which may have ends
// before and after.
func lastProtection(step *Step) string {
	// The core's moment is the first after the end.
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

// end is when a pod that runs is gone at the latest, by what it or its Job declares.
type end struct {
	at  time.Time
	pod *corev1.Pod
	// job is the one whose deadline it is; empty where it is the pod's own.
	job string
}

// declared are the ends of the pods that declare any. Those that do not are counted in the bounds, and so are those of which it is
// not known whether their Job does.
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

// endOf is a pod's own deadline.
func endOf(pod *corev1.Pod) (end, bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return end{}, false
	}
	return end{at: pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second), pod: pod}, true
}

// jobState says what is known of the Job that a pod is of.
type jobState int

const (
	// jobSilent: there is none, or it declares no deadline.
	jobSilent jobState = iota
	// jobDeclares: it declares a deadline.
	jobDeclares
	// jobUnknown: it is not among the objects.
	jobUnknown
)

// endByJob is when a pod has gone whose Job is at its deadline: the pod is deleted then, and has its grace period.
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

func graceOf(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
}

// because says whose deadline it is.
func (e *end) because() string {
	if e.job == "" {
		return fmt.Sprintf("activeDeadlineSeconds of pod %s ends it, if nothing else comes", keyOf(e.pod))
	}
	return fmt.Sprintf("activeDeadlineSeconds of Job %s ends pod %s, whose grace period is over by then, if nothing else comes", e.job, keyOf(e.pod))
}

// decideAt decides for the workload of a pending pod among these objects.
func decideAt(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, key types.NamespacedName) (Step, error) {
	cluster, err := New(ctx, objects, cfg)
	if err != nil {
		return Step{}, err
	}
	defer cluster.Close()
	return cluster.Decide(ctx, key)
}

// isPlaced reports whether work has a place by a decision, at once or once others have gone.
func isPlaced(step *Step) bool { return step.Outcome != core.Infeasible && step.Outcome != Held }

// latest looks for the first declared end of pods that run after which there would be room, if nothing else came.
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
