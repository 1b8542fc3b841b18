package preemptiontoleration

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
)

// These annotations of a PriorityClass define its policy.
const (
	// AnnotationMinimumPreemptablePriority is the lowest priority that may preempt pods of the
	// class at any time. The value is an int32. It defaults to the value of the class plus 1.
	AnnotationMinimumPreemptablePriority = "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority"
	// AnnotationTolerationSeconds is the length of the toleration in seconds, an int64. For this
	// time after a pod of the class was scheduled, priorities below the minimum cannot preempt the
	// pod. The default 0 means no toleration. A negative value means forever.
	AnnotationTolerationSeconds = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds"
	// AnnotationNeverSeconds is the length of the toleration of the PodGroups of the class that
	// have disruptionMode Never, in seconds. It is an annotation of Reprieve, not of the proposal.
	// The value is a whole number above 0. Without the annotation, the mode gives no protection.
	AnnotationNeverSeconds = "reprieve.dev/never-seconds"
)

// maxSeconds is the longest time.Duration, in seconds.
const maxSeconds = int64(math.MaxInt64 / time.Second)

// Forever returns a time in the distant future. It is the end of a toleration that never ends.
func Forever() time.Time { return time.Unix(1<<62, 0) }

// Policy is the preemption toleration of one PriorityClass. A nil Policy protects no pods.
type Policy struct {
	// MinimumPreemptablePriority is the lowest priority that may preempt pods of the class at any
	// time.
	MinimumPreemptablePriority int32
	// TolerationSeconds is the length of the toleration, in seconds since the pod was scheduled. 0
	// means no toleration. A negative value means forever. In a policy from FromPriorityClass, the
	// length fits a time.Duration.
	TolerationSeconds int64
}

// SystemCriticalPriority is the lowest priority of system-critical pods. It is higher than all
// priorities that users may define.
const SystemCriticalPriority int32 = 2_000_000_000

// MissingClass returns the policy of pods whose PriorityClass does not exist. No priority below
// SystemCriticalPriority can preempt them.
func MissingClass() *Policy {
	return &Policy{MinimumPreemptablePriority: SystemCriticalPriority, TolerationSeconds: -1}
}

// MalformedError reports an annotation that cannot be read. The class then has no policy.
type MalformedError struct {
	// Class is the name of the PriorityClass.
	Class string
	// Annotation is the key of the annotation, and Value is its value.
	Annotation, Value string
	// Reason describes the error and the valid values.
	Reason string
}

// Error returns the class, the annotation and the reason.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("PriorityClass %s: annotation %s: %q %s", e.Class, e.Annotation, e.Value, e.Reason)
}

// FromPriorityClass returns the policy of a class, with defaults filled in. It returns nil if the
// class has neither of the two annotations. Every error is a *MalformedError.
func FromPriorityClass(class *schedulingv1.PriorityClass) (*Policy, error) {
	_, hasPriority := class.Annotations[AnnotationMinimumPreemptablePriority]
	_, hasSeconds := class.Annotations[AnnotationTolerationSeconds]
	if !hasPriority && !hasSeconds {
		return nil, nil //nolint:nilnil // A class without a policy is neither an error nor a policy.
	}
	p, err := minimumOf(class)
	if err != nil || !hasSeconds {
		return p, err
	}
	if p.TolerationSeconds, err = secondsOf(class, AnnotationTolerationSeconds, -maxSeconds); err != nil {
		return nil, err
	}
	return p, nil
}

// Malformed returns an error for each annotation of a class that cannot be read, in the order of
// the annotations' names. Annotations without an effect, because another one is missing, count too.
func Malformed(class *schedulingv1.PriorityClass) (errs []*MalformedError) {
	collect := func(err error) {
		var malformed *MalformedError
		if errors.As(err, &malformed) {
			errs = append(errs, malformed)
		}
	}
	_, err := minimumOf(class)
	collect(err)
	for annotation, least := range map[string]int64{AnnotationTolerationSeconds: -maxSeconds, AnnotationNeverSeconds: 1} {
		if _, ok := class.Annotations[annotation]; ok {
			_, err := secondsOf(class, annotation, least)
			collect(err)
		}
	}
	slices.SortFunc(errs, func(a, b *MalformedError) int { return cmp.Compare(a.Annotation, b.Annotation) })
	return errs
}

// secondsOf returns the length in an annotation of a class, in seconds. least is the lowest valid
// value.
func secondsOf(class *schedulingv1.PriorityClass, annotation string, least int64) (int64, error) {
	seconds := class.Annotations[annotation]
	v, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || v > maxSeconds || v < least {
		return 0, &MalformedError{
			Class: class.Name, Annotation: annotation, Value: seconds,
			Reason: fmt.Sprintf("is no whole number of seconds between %d and %d", least, maxSeconds),
		}
	}
	return v, nil
}

// NeverFromPriorityClass returns the policy of the PodGroups of a class that have disruptionMode
// Never. It has the minimum of the class, and the length in AnnotationNeverSeconds, which is above
// 0. It returns nil if the class lacks that annotation. Every error is a *MalformedError.
func NeverFromPriorityClass(class *schedulingv1.PriorityClass) (*Policy, error) {
	if _, ok := class.Annotations[AnnotationNeverSeconds]; !ok {
		return nil, nil //nolint:nilnil // A class without a policy is neither an error nor a policy.
	}
	v, err := secondsOf(class, AnnotationNeverSeconds, 1)
	if err != nil {
		return nil, err
	}
	p, err := minimumOf(class)
	if err != nil {
		return nil, err
	}
	p.TolerationSeconds = v
	return p, nil
}

// minimumOf returns a policy with the minimum of a class and without a toleration.
func minimumOf(class *schedulingv1.PriorityClass) (*Policy, error) {
	p := &Policy{MinimumPreemptablePriority: class.Value}
	if class.Value < math.MaxInt32 {
		p.MinimumPreemptablePriority++
	}
	priority, ok := class.Annotations[AnnotationMinimumPreemptablePriority]
	if !ok {
		return p, nil
	}
	v, err := strconv.ParseInt(priority, 10, 32)
	if err != nil {
		return nil, &MalformedError{
			Class: class.Name, Annotation: AnnotationMinimumPreemptablePriority, Value: priority,
			Reason: fmt.Sprintf("is no integer between %d and %d", math.MinInt32, math.MaxInt32),
		}
	}
	p.MinimumPreemptablePriority = int32(v)
	return p, nil
}

// Tolerates reports whether a victim tolerates preemption by a preemptor with the given priority at
// the time now. scheduled is the time when the victim was scheduled. If the result is true,
// Tolerates also returns the last moment of the toleration, or Forever.
//
// A zero scheduled means that the victim is not scheduled yet. Its toleration then has no end.
func (p *Policy) Tolerates(preemptorPriority int32, scheduled, now time.Time) (bool, time.Time) {
	if p == nil || p.TolerationSeconds == 0 || preemptorPriority >= p.MinimumPreemptablePriority {
		return false, time.Time{}
	}
	until := p.Until(scheduled)
	return !now.After(until), until
}

// Until returns the last moment of the toleration of a victim that was scheduled at the given time.
// It returns Forever if the toleration never ends or the victim is not scheduled yet.
func (p *Policy) Until(scheduled time.Time) time.Time {
	if p.TolerationSeconds < 0 || scheduled.IsZero() {
		return Forever()
	}
	return scheduled.Add(time.Duration(p.TolerationSeconds) * time.Second)
}
