package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestLabels checks that labels that no code reads are reported once. The report also lists the
// labels that are read.
func TestLabels(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0)
	labeled := func(labels map[string]string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p", Labels: labels, CreationTimestamp: metav1.NewTime(begun.Add(time.Second))},
			Spec:       corev1.PodSpec{SchedulerName: "reprieve-scheduler"},
		}
		for _, f := range change {
			f(p)
		}
		return p
	}
	placed := func(p *corev1.Pod) { p.Spec.NodeName = "n" }
	older := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(begun.Add(-time.Second)) }
	of := func(uid types.UID, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Name, p.UID = name, types.UID(name)
			p.OwnerReferences = []metav1.OwnerReference{{UID: uid, Controller: ptr.To(true)}}
		}
	}
	wrong := map[string]string{"reprieve.dev/podgroup": "g"}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		// want lists, for each event, words that it must contain.
		want []string
		// bad lists the keys that are passed to the function bad.
		bad []string
	}{
		"a checkpoint ahead": {
			pods: []*corev1.Pod{labeled(nil, func(p *corev1.Pod) {
				p.Annotations = map[string]string{"reprieve.dev/last-checkpoint": begun.Add(time.Hour).UTC().Format(time.RFC3339)}
			})},
			want: []string{"want a time that is not in the future; the scheduler has 1970-01-01T00:16:40Z; it counts as if it was not there"},
			bad:  []string{"reprieve.dev/last-checkpoint"},
		},
		"a clock a little ahead": {
			pods: []*corev1.Pod{labeled(nil, func(p *corev1.Pod) {
				p.Annotations = map[string]string{"reprieve.dev/last-checkpoint": begun.Add(time.Minute).UTC().Format(time.RFC3339)}
			})},
		},
		"a group":  {pods: []*corev1.Pod{labeled(map[string]string{"reprieve.dev/pod-group": "g"})}},
		"a queue":  {pods: []*corev1.Pod{labeled(map[string]string{"team": "q", "app": "a"})}},
		"no group": {pods: []*corev1.Pod{labeled(wrong)}, want: []string{"label reprieve.dev/podgroup; a pod joins a PodGroup by reprieve.dev/pod-group"}},
		"no queue": {pods: []*corev1.Pod{labeled(map[string]string{"reprieve.dev/queue-name": "q"})}, want: []string{"names its queue by team"}},
		"no annotation": {
			pods: []*corev1.Pod{labeled(nil, func(p *corev1.Pod) { p.Annotations = map[string]string{"reprieve.dev/gnag": "true"} })},
			want: []string{"UnknownAnnotation nothing reads the annotation reprieve.dev/gnag; the annotations are reprieve.dev/checkpoint-interval, reprieve.dev/class-of"},
		},
		"no time": {
			pods: []*corev1.Pod{labeled(nil, func(p *corev1.Pod) {
				p.Annotations = map[string]string{"reprieve.dev/last-checkpoint": "yesterday", "reprieve.dev/restart-cost": "-1"}
			})},
			want: []string{`InvalidAnnotation annotation reprieve.dev/last-checkpoint: got "yesterday", want a time`},
			bad:  []string{"reprieve.dev/last-checkpoint", "reprieve.dev/restart-cost"},
		},
		"no time, placed long ago": {
			pods: []*corev1.Pod{labeled(wrong, placed, older, func(p *corev1.Pod) {
				p.Annotations = map[string]string{"reprieve.dev/last-checkpoint": "yesterday"}
			})},
			want: []string{"InvalidAnnotation"},
			bad:  []string{"reprieve.dev/last-checkpoint"},
		},
		"an unread key, then no time": {
			pods: []*corev1.Pod{labeled(wrong, of("job", "a")), labeled(nil, of("job", "b"), func(p *corev1.Pod) {
				p.Annotations = map[string]string{"reprieve.dev/last-checkpoint": "yesterday"}
			})},
			want: []string{"podgroup", "InvalidAnnotation"},
			bad:  []string{"reprieve.dev/last-checkpoint"},
		},
		"an annotation":         {pods: []*corev1.Pod{labeled(nil, func(p *corev1.Pod) { p.Annotations = map[string]string{"reprieve.dev/gang": "true"} })}},
		"a queue elsewhere":     {pods: []*corev1.Pod{labeled(map[string]string{"reprieve.dev/queue": "q"})}, want: []string{"reprieve.dev/queue;"}},
		"placed meanwhile":      {pods: []*corev1.Pod{labeled(wrong, placed)}, want: []string{"reprieve.dev/podgroup"}},
		"placed long ago":       {pods: []*corev1.Pod{labeled(wrong, placed, older)}},
		"waiting since long":    {pods: []*corev1.Pod{labeled(wrong, older)}, want: []string{"reprieve.dev/podgroup"}},
		"of another scheduler":  {pods: []*corev1.Pod{labeled(wrong, func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" })}},
		"seen again":            {pods: []*corev1.Pod{labeled(wrong), labeled(wrong)}, want: []string{"reprieve.dev/podgroup"}},
		"two of one owner":      {pods: []*corev1.Pod{labeled(wrong, of("job", "a")), labeled(wrong, of("job", "b"))}, want: []string{"reprieve.dev/podgroup"}},
		"one each of two owner": {pods: []*corev1.Pod{labeled(wrong, of("job", "a")), labeled(wrong, of("other", "b"))}, want: []string{"podgroup", "podgroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, recorder := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), events.NewFakeRecorder(10)
			var bad []string
			r := NewLabels(
				corelisters.NewPodLister(store), sets.New("reprieve-scheduler"), func(*corev1.Pod) string { return "team" }, recorder,
				clocktesting.NewFakePassiveClock(begun), func(key string) { bad = append(bad, key) },
			)
			for _, pod := range c.pods {
				if err := store.Add(pod); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
					t.Fatal(err)
				}
			}
			var told []string
			for len(recorder.Events) > 0 {
				told = append(told, <-recorder.Events)
			}
			if !slices.Equal(bad, c.bad) {
				t.Errorf("counted %q, want %q", bad, c.bad)
			}
			if len(told) != len(c.want) {
				t.Fatalf("told %q, want %d events", told, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(told[i], want) || !strings.HasPrefix(told[i], "Warning ") {
					t.Errorf("told %q, want %q", told[i], want)
				}
			}
		})
	}
}
