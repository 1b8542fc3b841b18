package app

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// The Job controller delays new pods after a failure. The first delay is firstBackOff. It doubles
// with each failure, up to longestBackOff.
const (
	firstBackOff   = 10 * time.Second
	longestBackOff = 10 * time.Minute
)

// backOff describes a Job that waits before it creates pods again.
type backOff struct {
	Job      string `json:"job"`
	Failures int32  `json:"failures"`
	// Until is the latest time when the Job creates pods.
	Until time.Time `json:"until"`
}

// backsOff looks for a Job of the subject that waits before it creates pods again. Such a Job has
// no active pods, is not suspended and has not ended. It returns the answer about this Job, or
// false if there is none.
func (s *subject) backsOff(objects *inventory.Inventory) (*whenAnswer, bool, error) {
	jobs, err := inventory.Decode[*batchv1.Job](objects, inventory.Jobs)
	if err != nil {
		return nil, false, err
	}
	for _, job := range jobs {
		if job.Namespace != s.key.Namespace || !s.madeBy(job) || jobIsOver(job) || job.Status.Active > 0 || job.Spec.Suspend != nil && *job.Spec.Suspend {
			continue
		}
		last := objects.Taken
		for _, pod := range s.pods {
			if at := endedAt(pod); pod.Status.Phase == corev1.PodFailed && !at.IsZero() {
				last = at
			}
		}
		wait := firstBackOff
		for range max(job.Status.Failed-1, 0) {
			wait = min(2*wait, longestBackOff)
		}
		until := last.Add(wait)
		if until.Before(objects.Taken) {
			// The delay has passed, so the controller is about to create pods.
			until = objects.Taken
		}
		return &whenAnswer{BackOff: &backOff{Job: "job " + job.Namespace + "/" + job.Name, Failures: job.Status.Failed, Until: until.UTC()}}, true, nil
	}
	return nil, false, nil
}

// madeBy reports whether a Job belongs to the subject. The Job may be the subject itself, the owner
// of a PodGroup of the subject, or a Job of the subject's family.
func (s *subject) madeBy(job *batchv1.Job) bool {
	if s.kind == kindJob && job.Name == s.key.Name {
		return true
	}
	if s.family != nil && s.family.owns(job.Namespace, job.OwnerReferences) {
		return true
	}
	for _, pg := range s.all {
		for _, owner := range pg.OwnerReferences {
			if owner.Kind == kindJob && owner.Name == job.Name {
				return true
			}
		}
	}
	return false
}

func jobIsOver(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// endedAt returns the time when the last container of a pod ended. It returns the zero time if the
// status has no such time.
func endedAt(pod *corev1.Pod) (last time.Time) {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	return last
}
