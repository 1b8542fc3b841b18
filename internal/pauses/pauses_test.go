package pauses

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/cluster"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// own is the name of the scheduler's plugin in these tests.
const own = "Reprieve"

// began is the time at the start of each test.
var began = time.Unix(1000, 0)

// fixture is a Pauses with one pod and a clock. It records the workloads that are retried, and the
// workloads whose reservations are released.
type fixture struct {
	*Pauses
	clock             *clocktesting.FakePassiveClock
	pod               *corev1.Pod
	key               workload.Key
	retried, released []workload.Key
}

// Retry is part of Retrier.
func (f *fixture) Retry(key workload.Key) { f.retried = append(f.retried, key) }

// All is part of Releaser.
func (f *fixture) All(key workload.Key, _ string) { f.released = append(f.released, key) }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{clock: clocktesting.NewFakePassiveClock(began), pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-p"}, Spec: corev1.PodSpec{SchedulerName: "reprieve-scheduler"},
	}}
	f.key = gang.KeyOfPod(f.pod)
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := pods.Add(f.pod); err != nil {
		t.Fatal(err)
	}
	index := cluster.NewIndex(cluster.Sources{Groups: &gang.Store{}})
	index.Pods, index.Lister = corelisters.NewPodLister(pods), gang.NewLister(pods)
	args := &configv1alpha1.ReprieveArgs{}
	configv1alpha1.SetDefaults(args)
	args.Retry.InitialBindingBackoff, args.Retry.MaxBindingBackoff = &metav1.Duration{Duration: time.Minute}, &metav1.Duration{Duration: time.Hour}
	index.Profiles.Add("reprieve-scheduler", args, nil)
	e := engine.New(nil)
	e.Step(began, engine.PodArrives{Pod: string(f.pod.UID), Key: f.key})
	f.Pauses = New(index, e, f.clock, metrics.New(), own, f, f)
	return f
}

// fails lets a pod fail in Bind after a preemption.
func (f *fixture) fails() *fwk.Status {
	f.unbound.Preempts(f.key)
	return f.FailedAfterDecision(nil, f.pod, &engine.Attempt{As: f.key, Failed: true}, fwk.AsStatus(errors.New("no connection")))
}

// TestFailureOf checks which step and message are read from the status at the end of a cycle.
func TestFailureOf(t *testing.T) {
	t.Parallel()
	fit := func(plugin, message string) error {
		nodes := framework.NewDefaultNodeToStatus()
		nodes.Set("node-0", fwk.NewStatus(fwk.Unschedulable, message))
		return &framework.FitError{Diagnosis: framework.Diagnosis{NodeToStatus: nodes, UnschedulablePlugins: sets.New(plugin)}}
	}
	for name, tt := range map[string]struct {
		status *fwk.Status
		// want is nil if this scheduler returned the pod to the queue.
		want *engine.Failure
	}{
		"an error of a plugin": {
			fwk.AsStatus(errors.New(`running PreBind plugin "VolumeBinding": no volume`)),
			&engine.Failure{Stage: "PreBind plugin VolumeBinding", Message: "no volume"},
		},
		"an error of a plugin at Reserve": {
			fwk.AsStatus(errors.New(`running Reserve plugin "DynamicResources": no claim`)),
			&engine.Failure{Stage: "Reserve plugin DynamicResources", Message: "no claim"},
		},
		"an error that names no plugin":          {fwk.AsStatus(errors.New("no connection")), &engine.Failure{Stage: "Bind", Message: "no connection"}},
		"a rejection by another plugin":          {fwk.NewStatus(fwk.Unschedulable, "full").WithPlugin("Other"), &engine.Failure{Stage: "Bind plugin Other", Message: "full"}},
		"a rejection by this scheduler":          {fwk.NewStatus(fwk.Unschedulable, "the gang was released").WithPlugin(own), nil},
		"a rejection by this scheduler, wrapped": {fwk.NewStatus(fwk.Unschedulable).WithError(fit(own, "the gang was released")), nil},
		"the end of the time at Permit": {
			fwk.NewStatus(fwk.Unschedulable, "rejected due to timeout after waiting 10s at plugin "+own).WithPlugin(own),
			&engine.Failure{Stage: "Permit plugin " + own, Message: "rejected due to timeout after waiting 10s at plugin " + own},
		},
		"a rejection by another plugin, wrapped": {
			fwk.NewStatus(fwk.Unschedulable).WithError(fit("Other", "full")), &engine.Failure{Stage: "Bind plugin Other", Message: "full"},
		},
		"a long message": {fwk.AsStatus(errors.New(strings.Repeat("é", 301))), &engine.Failure{Stage: "Bind", Message: strings.Repeat("é", 300) + "…"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, failed := failureOf(own, nil, tt.status)
			if failed != (tt.want != nil) || failed && got != *tt.want {
				t.Errorf("failureOf returns %+v, %v, want %+v", got, failed, tt.want)
			}
		})
	}
}

// TestStagesOf checks which of the given steps run a plugin.
func TestStagesOf(t *testing.T) {
	t.Parallel()
	set := func(names ...string) config.PluginSet {
		var out config.PluginSet
		for _, name := range names {
			out.Enabled = append(out.Enabled, config.Plugin{Name: name})
		}
		return out
	}
	plugins := &config.Plugins{Reserve: set("A", "B"), Permit: set("A"), PreBind: set("A", "B"), Bind: set("C")}
	for name, tt := range map[string]struct {
		plugin string
		steps  []string
		want   string
	}{
		"both steps":              {"A", []string{"Reserve", "Permit"}, "Reserve or Permit"},
		"one of the steps":        {"B", []string{"Reserve", "Permit"}, "Reserve"},
		"only in the other steps": {"C", []string{"Reserve", "Permit"}, ""},
		"the last step":           {"C", []string{"PreBind", "Bind"}, "Bind"},
	} {
		if got := strings.Join(stagesOf(plugins, tt.plugin, tt.steps), " or "); got != tt.want {
			t.Errorf("%s: stagesOf returns %q, want %q", name, got, tt.want)
		}
	}
}

// TestWithSentence checks that a status keeps its code, plugin and errors when it gets a sentence.
func TestWithSentence(t *testing.T) {
	t.Parallel()
	cause := errors.New("no connection")
	for name, tt := range map[string]struct {
		status      *fwk.Status
		wantMessage string
		wantCause   error
	}{
		"a rejection": {fwk.NewStatus(fwk.Unschedulable, "full"), "full, it waits", nil},
		"an error":    {fwk.AsStatus(cause), "no connection; it waits", cause},
		"no room": {
			fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{
				NumAllNodes: 1, Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus(), PostFilterMsg: "first"},
			}),
			"first; it waits", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code := tt.status.Code()
			got := withSentence(tt.status.WithPlugin("Other"), "it waits")
			if got.Code() != code || got.Plugin() != "Other" || tt.wantCause != nil && !errors.Is(got.AsError(), tt.wantCause) {
				t.Errorf("the status is %v of %q with the error %v", got.Code(), got.Plugin(), got.AsError())
			}
			if text := got.AsError().Error(); !strings.Contains(text, tt.wantMessage) {
				t.Errorf("the message is %q, want %q", text, tt.wantMessage)
			}
		})
	}
}

// TestFailedAfterDecision checks which failures pause a preemptor.
func TestFailedAfterDecision(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		attempt     engine.Attempt
		preemptions int
		change      func(*corev1.Pod)
		want        bool
	}{
		"after a preemption":              {attempt: engine.Attempt{Failed: true}, preemptions: 1, want: true},
		"without a preemption":            {attempt: engine.Attempt{Failed: true}},
		"before the decision":             {preemptions: 1},
		"canceled by this scheduler":      {attempt: engine.Attempt{Failed: true, Canceled: true}, preemptions: 1},
		"a profile of another scheduler":  {attempt: engine.Attempt{Failed: true}, preemptions: 1, change: func(p *corev1.Pod) { p.Spec.SchedulerName = "another" }},
		"a pod that is being deleted":     {attempt: engine.Attempt{Failed: true}, preemptions: 1, change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: began} }},
		"a pod that has been bound since": {attempt: engine.Attempt{Failed: true}, preemptions: 1, change: func(p *corev1.Pod) { p.Spec.NodeName = "node-0" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if tt.change != nil {
				tt.change(f.pod)
			}
			for range tt.preemptions {
				f.unbound.Preempts(f.key)
			}
			tt.attempt.As = f.key
			before := fwk.AsStatus(errors.New("no connection"))
			after := f.FailedAfterDecision(nil, f.pod, &tt.attempt, before)
			_, paused := f.engine.Pause(f.key, began)
			if paused != tt.want || (len(f.released) == 1) != tt.want || (after != before) != tt.want {
				t.Errorf("paused is %v, %d releases, the status is %q; want %v", paused, len(f.released), after.Message(), tt.want)
			}
			const sentence = "1 preemption for this pod did not end in a binding, so it preempts nothing before 1970-01-01T00:17:40Z; the step that failed is Bind"
			if tt.want && !strings.HasSuffix(after.Message(), sentence) {
				t.Errorf("the status is %q, want the sentence %q", after.Message(), sentence)
			}
		})
	}
}

// TestPreemptionEnded checks that a preemption counts only if it evicted a pod.
func TestPreemptionEnded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		outcome eviction.Outcome
		want    bool
	}{
		"it succeeded":               {outcome: eviction.Outcome{}, want: true},
		"it failed after a pod":      {outcome: eviction.Outcome{Err: errors.New("forbidden"), Begun: sets.New[types.UID]("uid-v")}, want: true},
		"it failed before any pod":   {outcome: eviction.Outcome{Err: errors.New("forbidden")}},
		"it was not wanted any more": {outcome: eviction.Outcome{Err: eviction.ErrOutdated, Unwanted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.unbound.Preempts(f.key)
			f.PreemptionEnded(f.key, &tt.outcome)
			if got := f.unbound.Has(f.key); got != tt.want {
				t.Errorf("the preemption counts: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestChangedByOwner checks which changes of a pod end its pause.
func TestChangedByOwner(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a label":       {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, true},
		"an annotation": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, true},
		"the spec":      {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} }, true},
		"the status":    {func(p *corev1.Pod) { p.Status.NominatedNodeName = "node-0" }, false},
		"the version":   {func(p *corev1.Pod) { p.ResourceVersion = "2" }, false},
		"the binding":   {func(p *corev1.Pod) { p.Spec.NodeName = "node-0" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.fails()
			after := f.pod.DeepCopy()
			tt.change(after)
			f.ChangedByOwner(f.pod, after)
			_, paused := f.engine.Pause(f.key, began)
			if paused == tt.want || (len(f.retried) == 1) != tt.want {
				t.Errorf("paused is %v, and %v are retried; the pause must end: %v", paused, f.retried, tt.want)
			}
		})
	}
}

// TestOf checks that the pause of a deleted pod passes to the next pod of its controller.
func TestOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		controller types.UID
		revision   string
		want       bool
	}{
		"the same controller":     {controller: "set", revision: "1", want: true},
		"another controller":      {controller: "other", revision: "1"},
		"a changed template":      {controller: "set", revision: "2"},
		"a pod without an owner":  {},
		"the pause of a live pod": {controller: "none", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			owned := func(pod *corev1.Pod, controller types.UID, revision string) {
				pod.OwnerReferences = []metav1.OwnerReference{{UID: controller, Controller: ptr.To(true)}}
				pod.Labels = map[string]string{"controller-revision-hash": revision}
			}
			owned(f.pod, "set", "1")
			f.fails()
			next, key := f.pod, f.key
			if tt.controller != "none" {
				f.engine.Step(began, engine.PodLeaves{Pod: string(f.pod.UID), Key: f.key, Controller: ControllerOf(f.pod)})
				next = f.pod.DeepCopy()
				next.Name, next.UID, next.OwnerReferences = "next", "uid-next", nil
				if tt.controller != "" {
					owned(next, tt.controller, tt.revision)
				}
				key = gang.KeyOfPod(next)
				f.engine.Step(began, engine.PodArrives{Pod: string(next.UID), Key: key})
			}
			if got := f.Of(key, next); (got != nil) != tt.want {
				t.Errorf("the pause is %+v, want one: %v", got, tt.want)
			}
		})
	}
}

// TestBackOff checks the delays after evictions in a row.
func TestBackOff(t *testing.T) {
	t.Parallel()
	retry := configv1alpha1.RetryArgs{InitialBackoff: &metav1.Duration{Duration: time.Second}, MaxBackoff: &metav1.Duration{Duration: 3 * time.Second}}
	failed := eviction.Outcome{Err: errors.New("forbidden")}
	refused, unwanted := failed, failed
	refused.Refused, unwanted.Unwanted = true, true
	for name, tt := range map[string]struct {
		outcomes []eviction.Outcome
		want     time.Duration
	}{
		"a success":                           {[]eviction.Outcome{{}}, 0},
		"the first failure":                   {[]eviction.Outcome{failed}, 0},
		"the second failure":                  {[]eviction.Outcome{failed, failed}, time.Second},
		"the maximum":                         {[]eviction.Outcome{failed, failed, failed, failed, failed}, 3 * time.Second},
		"a success between":                   {[]eviction.Outcome{failed, failed, {}, failed}, 0},
		"an unwanted order":                   {[]eviction.Outcome{failed, failed, unwanted}, 0},
		"a failure after an unwanted order":   {[]eviction.Outcome{failed, unwanted, failed}, time.Second},
		"a rejected deletion":                 {[]eviction.Outcome{refused}, time.Second},
		"two rejected deletions":              {[]eviction.Outcome{refused, refused}, time.Second},
		"a failure after a rejected deletion": {[]eviction.Outcome{refused, failed}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var got time.Duration
			for _, outcome := range tt.outcomes {
				got = f.BackOff(f.key, outcome, retry)
			}
			if got != tt.want {
				t.Errorf("the delay is %v, want %v", got, tt.want)
			}
		})
	}
}
