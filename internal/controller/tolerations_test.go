package controller

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/pkg/preemptiontoleration"
)

// TestTolerations checks that each change of a malformed class is reported once, and that count
// receives the correct number.
func TestTolerations(t *testing.T) {
	t.Parallel()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	recorder := events.NewFakeRecorder(10)
	count := -1
	pods := corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	r := NewTolerations(schedulinglisters.NewPriorityClassLister(store), pods, &gang.Store{}, gang.Named{}, recorder, func(n int) { count = n })
	look := func(seconds string) []string {
		t.Helper()
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
		if seconds != "" {
			class.Annotations = map[string]string{
				preemptiontoleration.AnnotationTolerationSeconds: seconds, preemptiontoleration.AnnotationMinimumPreemptablePriority: "5",
			}
		}
		if err := store.Update(class); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "c"}}); err != nil {
			t.Fatal(err)
		}
		var told []string
		for len(recorder.Events) > 0 {
			told = append(told, <-recorder.Events)
		}
		return told
	}
	for _, step := range []struct {
		seconds   string
		wantTold  string
		wantCount int
	}{
		{"60", "", -1},
		{"1h", `"1h"`, 1},
		{"1h", "", 1},
		{"1d", `"1d"`, 1},
		{"60", "", 0},
		{"1d", `"1d"`, 1},
		{"", "", 0},
	} {
		told := look(step.seconds)
		if step.wantTold == "" && len(told) > 0 || step.wantTold != "" && (len(told) != 1 || !strings.Contains(told[0], step.wantTold)) {
			t.Errorf("after %q: told %q, want %q", step.seconds, told, step.wantTold)
		}
		if count != step.wantCount {
			t.Errorf("after %q: %d malformed, want %d", step.seconds, count, step.wantCount)
		}
	}
}

// TestAllMalformedAnnotations checks that one report names all malformed annotations of a class, in
// a fixed order, and all effects. Long values are shortened.
func TestAllMalformedAnnotations(t *testing.T) {
	t.Parallel()
	const (
		minimum, seconds = preemptiontoleration.AnnotationMinimumPreemptablePriority, preemptiontoleration.AnnotationTolerationSeconds
		never            = preemptiontoleration.AnnotationNeverSeconds
		untolerant       = "the class has no preemption toleration"
		unbounded        = "the class does not protect groups in disruptionMode Never"
	)
	for name, c := range map[string]struct {
		annotations map[string]string
		want        []string
		wantNot     string
	}{
		"none":              {annotations: map[string]string{minimum: "5", seconds: "60", never: "60"}},
		"a minimum":         {annotations: map[string]string{minimum: "high", never: "60"}, want: []string{minimum, untolerant, unbounded}},
		"both lengths":      {annotations: map[string]string{seconds: "1h", never: "2h"}, want: []string{seconds, `"1h"`, never, `"2h"`, untolerant, unbounded}},
		"all":               {annotations: map[string]string{minimum: "high", seconds: "1h", never: "2h"}, want: []string{minimum, `"high"`, seconds, `"1h"`, never, `"2h"`, untolerant, unbounded}},
		"only never":        {annotations: map[string]string{never: "-1"}, want: []string{never, `"-1"`, unbounded}, wantNot: untolerant},
		"only a toleration": {annotations: map[string]string{seconds: "1h", never: "60"}, want: []string{seconds, `"1h"`, untolerant}, wantNot: unbounded},
		"a long value":      {annotations: map[string]string{seconds: strings.Repeat("x", 1000), never: "2h"}, want: []string{seconds, never}, wantNot: strings.Repeat("x", 100)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, recorder := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), events.NewFakeRecorder(10)
			pods := corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
			r := NewTolerations(schedulinglisters.NewPriorityClassLister(store), pods, &gang.Store{}, gang.Named{}, recorder, func(int) {})
			if err := store.Add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: c.annotations}}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "c"}}); err != nil {
				t.Fatal(err)
			}
			told := ""
			for len(recorder.Events) > 0 {
				told += <-recorder.Events + "\n"
			}
			malformed, _, _ := strings.Cut(told, "\n")
			if len(c.want) == 0 {
				if strings.Contains(told, reasonMalformedToleration) {
					t.Errorf("told %q", told)
				}
				return
			}
			rest := malformed
			for _, part := range c.want {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Errorf("told %q, which lacks %q after the parts before it", malformed, part)
				}
				rest = after
			}
			if c.wantNot != "" && strings.Contains(malformed, c.wantNot) {
				t.Errorf("told %q, which has %q", malformed, c.wantNot)
			}
			if !strings.HasPrefix(malformed, "Warning "+reasonMalformedToleration+" PriorityClass c: ") || strings.Count(malformed, "PriorityClass c") > 1 {
				t.Errorf("told %q", malformed)
			}
		})
	}
}

// TestIneffectiveTolerations checks that a toleration without effect is reported once for each
// change, and that count does not include it.
func TestIneffectiveTolerations(t *testing.T) {
	t.Parallel()
	const seconds, minimum = preemptiontoleration.AnnotationTolerationSeconds, preemptiontoleration.AnnotationMinimumPreemptablePriority
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	recorder := events.NewFakeRecorder(10)
	pods := corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	r := NewTolerations(schedulinglisters.NewPriorityClassLister(store), pods, &gang.Store{}, gang.Named{}, recorder, func(n int) { t.Errorf("%d are malformed", n) })
	const without = `PriorityClass c has ` + seconds + `: "600" and no ` + minimum + `, so every priority above its value 10 preempts it at once; set a minimum above 11`
	for _, step := range []struct {
		what        string
		annotations map[string]string
		want        string
	}{
		{"no toleration", nil, ""},
		{"a minimum without seconds", map[string]string{minimum: "5"}, ""},
		{"seconds of 0", map[string]string{seconds: "0"}, ""},
		{"seconds without a minimum", map[string]string{seconds: "600"}, without},
		{"the same again", map[string]string{seconds: "600"}, ""},
		{"a minimum of the value + 1", map[string]string{seconds: "600", minimum: "11"}, `"600" and ` + minimum + `: "11", so every priority above`},
		{"a minimum above it", map[string]string{seconds: "600", minimum: "12"}, ""},
		{"without one again", map[string]string{seconds: "600"}, without},
		{"for good", map[string]string{seconds: "-1"}, `"-1" and no ` + minimum},
	} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: step.annotations}, Value: 10}
		if err := store.Update(class); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "c"}}); err != nil {
			t.Fatal(err)
		}
		told := ""
		if len(recorder.Events) > 0 {
			told = <-recorder.Events
		}
		if (told != "") != (step.want != "") || !strings.Contains(told, step.want) || told != "" && !strings.HasPrefix(told, "Warning IneffectivePreemptionToleration ") {
			t.Errorf("%s: told %q, want %q", step.what, told, step.want)
		}
	}
}

// TestMissingClass checks that a missing class is reported once. It counts as long as running work
// names it.
func TestMissingClass(t *testing.T) {
	t.Parallel()
	classes, pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	recorder, groups, count := events.NewFakeRecorder(10), &gang.Store{}, -1
	r := NewTolerations(schedulinglisters.NewPriorityClassLister(classes), corelisters.NewPodLister(pods), groups, gang.Named{}, recorder, func(n int) { count = n })
	pod := func(name, node, class, group string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node, PriorityClassName: class}}
		if group != "" {
			p.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
		}
		return p
	}
	groups.Set(&gang.Group{Key: types.NamespacedName{Namespace: "ns", Name: "g"}, PriorityClassName: "gone", Priority: ptr.To[int32](0)})
	groups.Set(&gang.Group{Key: types.NamespacedName{Namespace: "ns", Name: "plain"}, Priority: ptr.To[int32](0)})
	groups.Set(&gang.Group{Key: types.NamespacedName{Namespace: "ns", Name: "unresolved"}, PriorityClassName: "gone"})
	for _, step := range []struct {
		what      string
		change    func() error
		of        *corev1.Pod
		wantAsked bool
		wantTold  int
		wantCount int
	}{
		{what: "none runs", change: func() error { return nil }, wantCount: -1},
		{what: "one is pending", change: func() error { return pods.Add(pod("p", "", "gone", "")) }, of: pod("p", "", "gone", ""), wantCount: -1},
		{what: "one of a group without a class", change: func() error { return pods.Add(pod("q", "n", "gone", "plain")) }, of: pod("q", "n", "gone", "plain"), wantCount: -1},
		{what: "one of a group that the class has given nothing", change: func() error { return pods.Add(pod("r", "n", "", "unresolved")) }, of: pod("r", "n", "", "unresolved"), wantCount: -1},
		{what: "one runs", change: func() error { return pods.Update(pod("p", "n", "gone", "")) }, of: pod("p", "n", "gone", ""), wantAsked: true, wantTold: 1, wantCount: 1},
		{what: "another runs", change: func() error { return pods.Add(pod("p2", "n", "gone", "")) }, of: pod("p2", "n", "gone", ""), wantAsked: true, wantCount: 1},
		{what: "the class is back", change: func() error {
			return classes.Add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gone"}})
		}, of: pod("p2", "n", "gone", ""), wantCount: 0},
		{what: "and gone", change: func() error {
			return classes.Delete(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gone"}})
		}, wantTold: 1, wantCount: 1},
		{what: "those of the class have gone", change: func() error { return pods.Replace(nil, "") }, wantCount: 0},
		{what: "a member of a group of the class", change: func() error { return pods.Add(pod("m", "n", "", "g")) }, of: pod("m", "n", "", "g"), wantAsked: true, wantTold: 1, wantCount: 1},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if step.of != nil {
			if asked := len(r.podOfMissingClass(t.Context(), step.of)) > 0; asked != step.wantAsked {
				t.Errorf("%s: looked at %v, want %v", step.what, asked, step.wantAsked)
			}
		}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "gone"}}); err != nil {
			t.Fatal(err)
		}
		told := 0
		for ; len(recorder.Events) > 0; told++ {
			if said := <-recorder.Events; !strings.Contains(said, "Warning PriorityClassNotFound PriorityClass gone does not exist") {
				t.Errorf("%s: said %q", step.what, said)
			}
		}
		if told != step.wantTold || count != step.wantCount {
			t.Errorf("%s: told %d times and counted %d, want %d and %d", step.what, told, count, step.wantTold, step.wantCount)
		}
	}
}
