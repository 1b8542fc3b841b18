package preemptiontoleration

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
)

// class returns a PriorityClass with both annotations. It omits an annotation whose value is "-".
func class(name string, value int32, priority, seconds string) *schedulingv1.PriorityClass {
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}, Value: value}
	if priority != "-" {
		c.Annotations[AnnotationMinimumPreemptablePriority] = priority
	}
	if seconds != "-" {
		c.Annotations[AnnotationTolerationSeconds] = seconds
	}
	return c
}

func TestFromPriorityClass(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		class         *schedulingv1.PriorityClass
		want          *Policy
		wantMalformed string
	}{
		"no annotation":                   {class: class("c", 8000, "-", "-")},
		"both":                            {class: class("c", 8000, "10000", "600"), want: &Policy{10000, 600}},
		"priority defaults to one above":  {class: class("c", 8000, "-", "600"), want: &Policy{8001, 600}},
		"seconds default to none":         {class: class("c", 8000, "10000", "-"), want: &Policy{10000, 0}},
		"forever":                         {class: class("c", 8000, "10000", "-1"), want: &Policy{10000, -1}},
		"negative priorities":             {class: class("c", -10, "-5", "1"), want: &Policy{-5, 1}},
		"the highest priority":            {class: class("c", math.MaxInt32, "-", "1"), want: &Policy{math.MaxInt32, 1}},
		"the longest time":                {class: class("c", 0, "-", "9223372036"), want: &Policy{1, 9223372036}},
		"one second more":                 {class: class("c", 0, "-", "9223372037"), wantMalformed: AnnotationTolerationSeconds},
		"one second less than the least":  {class: class("c", 0, "-", "-9223372037"), wantMalformed: AnnotationTolerationSeconds},
		"seconds beyond int64":            {class: class("c", 0, "-", "9223372036854775808"), wantMalformed: AnnotationTolerationSeconds},
		"seconds with a unit":             {class: class("c", 0, "-", "10m"), wantMalformed: AnnotationTolerationSeconds},
		"empty seconds":                   {class: class("c", 0, "1", ""), wantMalformed: AnnotationTolerationSeconds},
		"priority beyond int32":           {class: class("c", 0, strconv.Itoa(math.MaxInt32+1), "1"), wantMalformed: AnnotationMinimumPreemptablePriority},
		"priority that is no number":      {class: class("c", 0, "high", "1"), wantMalformed: AnnotationMinimumPreemptablePriority},
		"priority with a fraction":        {class: class("c", 0, "1.5", "1"), wantMalformed: AnnotationMinimumPreemptablePriority},
		"priority with a space around it": {class: class("c", 0, " 1", "1"), wantMalformed: AnnotationMinimumPreemptablePriority},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromPriorityClass(c.class)
			var malformed *MalformedError
			if c.wantMalformed != "" {
				if !errors.As(err, &malformed) || malformed.Annotation != c.wantMalformed || got != nil {
					t.Fatalf("%v, %v; want a MalformedError about %s", got, err, c.wantMalformed)
				}
				return
			}
			if err != nil || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestNeverFromPriorityClass(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		priority, seconds, never string
		want                     *Policy
		wantMalformed            string
	}{
		"no annotation":                {priority: "-", seconds: "-", never: "-"},
		"a toleration only":            {priority: "100", seconds: "600", never: "-"},
		"a length only":                {priority: "-", seconds: "-", never: "60", want: &Policy{9, 60}},
		"beside a toleration":          {priority: "100", seconds: "-1", never: "60", want: &Policy{100, 60}},
		"the longest time":             {priority: "100", seconds: "-", never: "9223372036", want: &Policy{100, 9223372036}},
		"one second more":              {priority: "100", seconds: "-", never: "9223372037", wantMalformed: AnnotationNeverSeconds},
		"no time":                      {priority: "100", seconds: "-", never: "0", wantMalformed: AnnotationNeverSeconds},
		"forever":                      {priority: "100", seconds: "-", never: "-1", wantMalformed: AnnotationNeverSeconds},
		"a unit":                       {priority: "100", seconds: "-", never: "10m", wantMalformed: AnnotationNeverSeconds},
		"a minimum that is no number":  {priority: "high", seconds: "-", never: "60", wantMalformed: AnnotationMinimumPreemptablePriority},
		"a malformed toleration":       {priority: "100", seconds: "10m", never: "60", want: &Policy{100, 60}},
		"a malformed length otherwise": {priority: "high", seconds: "-", never: "", wantMalformed: AnnotationNeverSeconds},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := class("c", 8, c.priority, c.seconds)
			if c.never != "-" {
				of.Annotations[AnnotationNeverSeconds] = c.never
			}
			got, err := NeverFromPriorityClass(of)
			var malformed *MalformedError
			if c.wantMalformed != "" {
				if !errors.As(err, &malformed) || malformed.Annotation != c.wantMalformed || got != nil {
					t.Fatalf("%v, %v; want a MalformedError about %s", got, err, c.wantMalformed)
				}
				return
			}
			if err != nil || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestTolerates(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tenMinutes := &Policy{MinimumPreemptablePriority: 10000, TolerationSeconds: 600}
	forever := &Policy{MinimumPreemptablePriority: 10000, TolerationSeconds: -1}
	cases := map[string]struct {
		policy    *Policy
		preemptor int32
		scheduled time.Time
		now       time.Time
		want      bool
		wantUntil time.Time
	}{
		"no policy":                    {policy: nil, preemptor: 1, scheduled: start, now: start},
		"no seconds":                   {policy: &Policy{MinimumPreemptablePriority: 10000}, preemptor: 1, scheduled: start, now: start},
		"within":                       {policy: tenMinutes, preemptor: 9000, scheduled: start, now: start.Add(time.Minute), want: true, wantUntil: start.Add(10 * time.Minute)},
		"exactly at the end":           {policy: tenMinutes, preemptor: 9000, scheduled: start, now: start.Add(10 * time.Minute), want: true, wantUntil: start.Add(10 * time.Minute)},
		"after the end":                {policy: tenMinutes, preemptor: 9000, scheduled: start, now: start.Add(10*time.Minute + 1), wantUntil: start.Add(10 * time.Minute)},
		"against the minimum":          {policy: tenMinutes, preemptor: 10000, scheduled: start, now: start},
		"against one below it":         {policy: tenMinutes, preemptor: 9999, scheduled: start, now: start, want: true, wantUntil: start.Add(10 * time.Minute)},
		"forever":                      {policy: forever, preemptor: 9000, scheduled: start, now: start.Add(1e6 * time.Hour), want: true, wantUntil: Forever()},
		"forever, against the minimum": {policy: forever, preemptor: 10000, scheduled: start, now: start},
		"not scheduled yet":            {policy: tenMinutes, preemptor: 9000, now: start, want: true, wantUntil: Forever()},
		"the longest time there is":    {policy: &Policy{MinimumPreemptablePriority: 10000, TolerationSeconds: maxSeconds}, preemptor: 1, scheduled: start, now: start.Add(1e6 * time.Hour), want: true, wantUntil: start.Add(time.Duration(maxSeconds) * time.Second)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, until := c.policy.Tolerates(c.preemptor, c.scheduled, c.now)
			if got != c.want || !until.Equal(c.wantUntil) {
				t.Errorf("%t until %v, want %t until %v", got, until, c.want, c.wantUntil)
			}
		})
	}
}

func TestCanToleratePreemption(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, c := range []*schedulingv1.PriorityClass{
		class("low", 8000, "-", "-"), class("low-10min", 8000, "10000", "600"), class("odd", 8000, "x", "600"),
	} {
		if err := store.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	lister := schedulinglisters.NewPriorityClassLister(store)
	pod := func(class string, priority int32, scheduled corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: class, Priority: &priority}}
		if scheduled != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: scheduled, LastTransitionTime: metav1.NewTime(start)}}
		}
		return p
	}
	cases := map[string]struct {
		victim    *corev1.Pod
		preemptor int32
		after     time.Duration
		want      bool
		wantErr   bool
	}{
		"no class":                           {victim: pod("", 8000, corev1.ConditionTrue), preemptor: 9000},
		"a class that is gone":               {victim: pod("gone", 8000, corev1.ConditionTrue), preemptor: 9000, want: true, wantErr: true},
		"gone, and just not system-critical": {victim: pod("gone", 8000, ""), preemptor: 1_999_999_999, after: time.Hour, want: true, wantErr: true},
		"gone, against system-critical":      {victim: pod("gone", 8000, corev1.ConditionTrue), preemptor: 2_000_000_000, wantErr: true},
		"a class without a policy":           {victim: pod("low", 8000, corev1.ConditionTrue), preemptor: 9000},
		"a malformed policy":                 {victim: pod("odd", 8000, corev1.ConditionTrue), preemptor: 9000, wantErr: true},
		"within its time":                    {victim: pod("low-10min", 8000, corev1.ConditionTrue), preemptor: 9000, after: 9 * time.Minute, want: true},
		"after its time":                     {victim: pod("low-10min", 8000, corev1.ConditionTrue), preemptor: 9000, after: 11 * time.Minute},
		"against the minimum":                {victim: pod("low-10min", 8000, corev1.ConditionTrue), preemptor: 10000},
		"a condition that is absent":         {victim: pod("low-10min", 8000, ""), preemptor: 9000, after: time.Hour, want: true},
		"a condition that is not True (yet)": {victim: pod("low-10min", 8000, corev1.ConditionFalse), preemptor: 9000, after: time.Hour, want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := CanToleratePreemption(c.victim, pod("", c.preemptor, ""), lister, start.Add(c.after))
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("%t, %v; want %t, error %t", got, err, c.want, c.wantErr)
			}
		})
	}
}
