package pauses

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

func condition(of corev1.PodConditionType) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: of, Status: corev1.ConditionTrue})
	}
}

func unready(p *corev1.Pod) { p.Status.Conditions = nil }

func phase(is corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = is }
}

func restart(p *corev1.Pod) {
	if len(p.Status.ContainerStatuses) == 0 {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "train"}}
	}
	p.Status.ContainerStatuses[0].RestartCount++
}

func restartInit(p *corev1.Pod) {
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", RestartCount: 1}}
}

// TestFollowStart checks which changes of a bound pod count as crashes of a preemptor.
func TestFollowStart(t *testing.T) {
	t.Parallel()
	const settled = engine.SettledAfter
	for name, tt := range map[string]struct {
		// alone is true if no pod was preempted for the pod.
		alone bool
		// changes happen one after another, and the time every passes before each.
		changes []func(*corev1.Pod)
		every   time.Duration
		want    int
	}{
		"a restart":                           {changes: []func(*corev1.Pod){restart}, want: 1},
		"three restarts":                      {changes: []func(*corev1.Pod){restart, restart, restart}, want: 3},
		"a restart of a sidecar":              {changes: []func(*corev1.Pod){restartInit}, want: 1},
		"a failure":                           {changes: []func(*corev1.Pod){phase(corev1.PodFailed)}, want: 1},
		"a restart and a failure":             {changes: []func(*corev1.Pod){restart, phase(corev1.PodFailed)}, want: 2},
		"readiness":                           {changes: []func(*corev1.Pod){condition(corev1.PodReady)}},
		"a restart shortly after readiness":   {changes: []func(*corev1.Pod){restart, condition(corev1.PodReady), unready, restart}, every: settled / 2, want: 2},
		"a restart long after readiness":      {changes: []func(*corev1.Pod){restart, condition(corev1.PodReady), unready, restart}, every: settled},
		"a success":                           {changes: []func(*corev1.Pod){restart, phase(corev1.PodSucceeded)}},
		"an eviction":                         {changes: []func(*corev1.Pod){condition(corev1.DisruptionTarget), restart}},
		"a failure after an eviction":         {changes: []func(*corev1.Pod){condition(corev1.DisruptionTarget), phase(corev1.PodFailed)}},
		"a restart while it is being deleted": {changes: []func(*corev1.Pod){func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: began} }, restart}},
		"a restart without a preemption":      {alone: true, changes: []func(*corev1.Pod){restart}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if !tt.alone {
				limit := engine.CrashLimit{Starts: 1, Backing: engine.Backing{Initial: time.Hour, Max: time.Hour}}
				f.engine.Crashes.Preempts(f.key, limit, began)
			}
			now := f.pod.DeepCopy()
			now.Spec.NodeName = "node-0"
			f.FollowStart(f.pod, now)
			for _, change := range tt.changes {
				f.clock.SetTime(f.clock.Now().Add(tt.every))
				before := now
				now = now.DeepCopy()
				change(now)
				f.FollowStart(before, now)
			}
			pause, _ := f.engine.Crashes.Pause(f.key, f.clock.Now())
			if pause.Crashes != tt.want {
				t.Errorf("%d crashes count, want %d", pause.Crashes, tt.want)
			}
		})
	}
}

// TestSentence checks the sentences about pauses.
func TestSentence(t *testing.T) {
	t.Parallel()
	last := engine.Failure{Stage: "Bind", Message: "no connection"}
	for name, tt := range map[string]struct {
		pause engine.PreemptionPause
		key   workload.Key
		want  string
	}{
		"one preemption": {
			engine.PreemptionPause{Until: began, Preemptions: 1, Last: last}, workload.Key{},
			"1 preemption for this pod did not end in a binding, so it preempts nothing before 1970-01-01T00:16:40Z; the last one failed at Bind: no connection",
		},
		"two preemptions for a gang": {
			engine.PreemptionPause{Until: began, Preemptions: 2, Last: last}, workload.Key{Gang: true},
			"2 preemptions for this gang did not end",
		},
		"one crash": {
			engine.PreemptionPause{Until: began, Preemptions: 1, Crashes: 1, Last: engine.Failure{Stage: "pod p", Message: "it failed"}}, workload.Key{},
			"1 start of this pod crashed after a preemption, before it was ready for 10s, so it preempts nothing before 1970-01-01T00:16:40Z; the last crash is of pod p: it failed",
		},
		"three crashes of a gang": {
			engine.PreemptionPause{Until: began, Crashes: 3, Last: last}, workload.Key{Gang: true}, "3 starts in a row of this gang crashed",
		},
	} {
		if got := Sentence(&tt.pause, tt.key); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: the sentence is %q, want %q", name, got, tt.want)
		}
	}
}

// TestCrashOf checks the description of a crash.
func TestCrashOf(t *testing.T) {
	t.Parallel()
	for want, terminated := range map[string]*corev1.ContainerStateTerminated{
		"it was restarted":        nil,
		"exit code 2":             {ExitCode: 2},
		"exit code 1 (OOMKilled)": {ExitCode: 1, Reason: "OOMKilled"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		got := crashOf(pod, &corev1.ContainerStatus{Name: "train", LastTerminationState: corev1.ContainerState{Terminated: terminated}})
		if got.Stage != "container train of pod p" || got.Message != want {
			t.Errorf("the crash is %+v, want the message %q", got, want)
		}
	}
}
