package scenario_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/simulation"
)

// annotated returns a function that sets an annotation of a pod.
func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

// TestProgress checks the checkpoint, the checkpoint interval and the restart cost of work, which
// come from annotations. All running pods started an hour before the snapshot.
func TestProgress(t *testing.T) {
	t.Parallel()
	at := func(ago time.Duration) func(*corev1.Pod) {
		return annotated(v1alpha1.AnnotationLastCheckpoint, noon.Add(-ago).Format(time.RFC3339))
	}
	every := func(value string) func(*corev1.Pod) { return annotated(v1alpha1.AnnotationCheckpointInterval, value) }
	restart := func(value string) func(*corev1.Pod) { return annotated(v1alpha1.AnnotationRestartCost, value) }
	type progress struct{ saved, interval, restart time.Duration }
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want progress
	}{
		"nothing is known":                    {pods: []*corev1.Pod{podNamed("p", "a")}},
		"a checkpoint":                        {pods: []*corev1.Pod{podNamed("p", "a", at(20*time.Minute))}, want: progress{saved: 40 * time.Minute}},
		"a checkpoint before the run":         {pods: []*corev1.Pod{podNamed("p", "a", at(2*time.Hour))}},
		"a checkpoint of a clock ahead":       {pods: []*corev1.Pod{podNamed("p", "a", at(-time.Minute))}, want: progress{saved: time.Hour}},
		"a checkpoint in the future":          {pods: []*corev1.Pod{podNamed("p", "a", at(-2*time.Minute))}},
		"a checkpoint of pending work":        {pods: []*corev1.Pod{podNamed("p", "", at(20*time.Minute))}},
		"the latest checkpoint of a gang":     {pods: []*corev1.Pod{podNamed("p", "a", in("gang"), at(30*time.Minute)), podNamed("q", "b", in("gang"), at(10*time.Minute))}, want: progress{saved: 50 * time.Minute}},
		"an interval and a restart":           {pods: []*corev1.Pod{podNamed("p", "", every("30m"), restart("600"))}, want: progress{interval: 30 * time.Minute, restart: 10 * time.Minute}},
		"an interval of some members":         {pods: []*corev1.Pod{podNamed("p", "a", in("gang"), every("30m")), podNamed("q", "b", in("gang"))}},
		"the longest interval of a gang":      {pods: []*corev1.Pod{podNamed("p", "a", in("gang"), every("30m")), podNamed("q", "b", in("gang"), every("45m"))}, want: progress{interval: 45 * time.Minute}},
		"an annotation that cannot be parsed": {pods: []*corev1.Pod{podNamed("p", "a", every("1d"), at(20*time.Minute))}, want: progress{saved: 40 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input, _ := made(t, stock(t, c.pods...))
			if len(input.Work) != 1 {
				t.Fatalf("The work is %+v", input.Work)
			}
			w := input.Work[0]
			if got := (progress{w.Saved, w.Interval, w.Restart}); got != c.want {
				t.Errorf("The progress is %+v, want %+v", got, c.want)
			}
			if _, err := simulation.Run(t.Context(), input, simulation.Policy{Rule: simulation.ByPriority}, simulation.Options{Lasts: time.Hour}); err != nil {
				t.Error(err)
			}
		})
	}
}
