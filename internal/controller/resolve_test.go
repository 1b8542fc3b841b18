package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

func classes(t *testing.T, all ...*schedulingv1.PriorityClass) schedulinglisters.PriorityClassLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, c := range all {
		if err := indexer.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	return schedulinglisters.NewPriorityClassLister(indexer)
}

func class(name string, value int32, isDefault bool) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: isDefault}
}

func never(class *schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
	class.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	return class
}

// resolve reconciles a group. It returns the group afterwards, the records and the events.
func resolve(t *testing.T, lister schedulinglisters.PriorityClassLister, pg *v1alpha1.PodGroup, others ...client.Object) (*v1alpha1.PodGroup, *engine.Gangs, []string) {
	t.Helper()
	cl := newClient(t, append(others, pg)...)
	gangs := engine.New(nil).Gangs
	recorder := events.NewFakeRecorder(10)
	r := NewResolver(cl, lister, gangs, recorder)
	for range 2 {
		// The second call must change nothing and report nothing.
		if result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey}); err != nil || !result.IsZero() {
			t.Fatalf("Again: %+v, error: %v", result, err)
		}
	}
	var got v1alpha1.PodGroup
	if err := cl.Get(t.Context(), groupKey, &got); err != nil {
		t.Fatal(err)
	}
	close(recorder.Events)
	var told []string
	for e := range recorder.Events {
		told = append(told, e)
	}
	return &got, gangs, told
}

// resolutionCases returns the cases for resolving a PriorityClass. They apply to groups and to
// templates.
func resolutionCases() map[string]resolutionCase {
	return map[string]resolutionCase{
		"the named class":                   {classes: []*schedulingv1.PriorityClass{class("a", 7, false), class("d", 3, true)}, class: "a", want: ptr.To[int32](7)},
		"the policy of the named class":     {classes: []*schedulingv1.PriorityClass{never(class("a", 7, false))}, class: "a", want: ptr.To[int32](7), wantNever: true},
		"a named class that does not exist": {classes: []*schedulingv1.PriorityClass{class("d", 3, true)}, class: "a"},
		"the global default":                {classes: []*schedulingv1.PriorityClass{class("a", 7, false), class("d", 3, true)}, want: ptr.To[int32](3), wantClass: "d"},
		"the policy of the global default":  {classes: []*schedulingv1.PriorityClass{never(class("d", 3, true))}, want: ptr.To[int32](3), wantClass: "d", wantNever: true},
		"the lowest of several defaults":    {classes: []*schedulingv1.PriorityClass{class("c", 2, true), class("d", 3, true)}, want: ptr.To[int32](2), wantClass: "c"},
		"a negative default":                {classes: []*schedulingv1.PriorityClass{class("c", -2, true)}, want: ptr.To[int32](-2), wantClass: "c"},
		"a priority from before, of no name": {
			classes: []*schedulingv1.PriorityClass{never(class("d", 3, true))}, given: ptr.To[int32](3), want: ptr.To[int32](3), wantNever: true,
		},
		"nothing":                           {want: ptr.To[int32](0)},
		"system-node-critical, not created": {class: "system-node-critical", want: ptr.To[int32](2000001000)},
		"system-cluster-critical, likewise": {class: "system-cluster-critical", want: ptr.To[int32](2000000000)},
		"a name that is only like those":    {class: "system-critical"},
		"what has been filled in stays": {
			classes: []*schedulingv1.PriorityClass{never(class("a", 7, false))}, class: "a",
			given: ptr.To[int32](1), givenPolicy: corev1.PreemptLowerPriority, want: ptr.To[int32](1),
		},
		"the policy alone is filled in": {
			classes: []*schedulingv1.PriorityClass{never(class("a", 7, false))}, class: "a",
			given: ptr.To[int32](1), want: ptr.To[int32](1), wantNever: true,
		},
		"the policy of a class that has gone": {class: "a", given: ptr.To[int32](1), want: ptr.To[int32](1), wantNever: true},
	}
}

type resolutionCase struct {
	classes     []*schedulingv1.PriorityClass
	class       string
	given       *int32
	givenPolicy corev1.PreemptionPolicy
	// want is the priority after the test; nil if it must stay empty.
	want      *int32
	wantNever bool
	// wantClass is the class name that is filled in; "" if the name was set before.
	wantClass string
}

func (c resolutionCase) policy() v1alpha1.PodGroupPolicy {
	p := v1alpha1.PodGroupPolicy{SchedulingPolicy: gangGroup(2).Spec.SchedulingPolicy, Priority: c.given}
	if c.class != "" {
		p.PriorityClassName = &c.class
	}
	if c.givenPolicy != "" {
		p.PreemptionPolicy = &c.givenPolicy
	}
	return p
}

func (c resolutionCase) check(t *testing.T, got *v1alpha1.PodGroupPolicy) {
	t.Helper()
	if !ptr.Equal(got.Priority, c.want) {
		t.Errorf("Priority is %v, want %v", ptr.Deref(got.Priority, -1), ptr.Deref(c.want, -1))
	}
	var want *corev1.PreemptionPolicy
	switch {
	case c.wantNever:
		want = ptr.To(corev1.PreemptNever)
	case c.want != nil:
		want = ptr.To(corev1.PreemptLowerPriority)
	}
	if !ptr.Equal(got.PreemptionPolicy, want) {
		t.Errorf("Policy is %q, want %q", ptr.Deref(got.PreemptionPolicy, ""), ptr.Deref(want, ""))
	}
	if name := ptr.Deref(got.PriorityClassName, ""); name != cmp.Or(c.wantClass, c.class) {
		t.Errorf("Class is %q, want %q", name, cmp.Or(c.wantClass, c.class))
	}
}

// TestNameOfTheDefaultIsRefused checks the case that the API server rejects the name of the global
// default class. The priority is then filled in without the name. The CustomResourceDefinitions of
// the previous release accept the name only when an object is created.
func TestNameOfTheDefaultIsRefused(t *testing.T) {
	t.Parallel()
	lister := classes(t, never(class("d", 3, true)))
	check := resolutionCase{want: ptr.To[int32](3), wantNever: true}.check
	pg := gangGroup(2)
	pg.Spec.PodGroupPolicy = resolutionCase{}.policy()
	w := &v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w"}}
	w.Spec.PodGroupTemplates = []v1alpha1.PodGroupTemplate{
		{Name: "named", PodGroupPolicy: resolutionCase{class: "d"}.policy()}, {Name: "t", PodGroupPolicy: resolutionCase{}.policy()},
	}
	patches := 0
	cl := interceptor.NewClient(newWithWatch(t, pg, w), interceptor.Funcs{
		Patch: func(ctx context.Context, cl client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			patches++
			named := false
			switch obj := obj.(type) {
			case *v1alpha1.PodGroup:
				named = obj.Spec.PriorityClassName != nil
			case *v1alpha1.Workload:
				named = obj.Spec.PodGroupTemplates[1].PriorityClassName != nil
			}
			if named {
				return apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("x").GroupKind(), obj.GetName(), nil)
			}
			return cl.Patch(ctx, obj, patch, opts...)
		},
	})
	gangs, recorder := engine.New(nil).Gangs, events.NewFakeRecorder(10)
	for range 2 {
		if _, err := NewResolver(cl, lister, gangs, recorder).Reconcile(t.Context(), requestFor(pg)); err != nil {
			t.Fatal(err)
		}
		if _, err := NewWorkloadResolver(cl, lister, recorder).Reconcile(t.Context(), requestFor(w)); err != nil {
			t.Fatal(err)
		}
	}
	var group v1alpha1.PodGroup
	var workload v1alpha1.Workload
	if err := errors.Join(cl.Get(t.Context(), client.ObjectKeyFromObject(pg), &group), cl.Get(t.Context(), client.ObjectKeyFromObject(w), &workload)); err != nil {
		t.Fatal(err)
	}
	check(t, &group.Spec.PodGroupPolicy)
	check(t, &workload.Spec.PodGroupTemplates[1].PodGroupPolicy)
	if named := workload.Spec.PodGroupTemplates[0]; ptr.Deref(named.PriorityClassName, "") != "d" || ptr.Deref(named.Priority, 0) != 3 {
		t.Errorf("The template with a class has become %+v", named)
	}
	if lacks := gangs.Unresolved(gang.KeyOf(client.ObjectKeyFromObject(pg))); lacks != (gang.Verdict{}) || len(recorder.Events) > 0 || patches != 4 {
		t.Errorf("Lacks %+v, %d events, %d patches, want no lack, no event, and two patches for each", lacks, len(recorder.Events), patches)
	}
}

func TestPriorityIsResolvedAsForPods(t *testing.T) {
	t.Parallel()
	for name, c := range resolutionCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := gangGroup(2)
			pg.Spec.PodGroupPolicy = c.policy()
			got, gangs, told := resolve(t, classes(t, c.classes...), pg)
			c.check(t, &got.Spec.PodGroupPolicy)
			want := ""
			if c.want == nil {
				want = v1alpha1.ReasonPriorityClassNotFound
			}
			v := gangs.Unresolved(gang.KeyOf(groupKey))
			if v.Reason != want || want != "" && !strings.Contains(v.Message, fmt.Sprintf("%q", c.class)) {
				t.Errorf("Lacks %+v, want %q", v, want)
			}
			if len(told) != len(nonEmpty(want)) || want != "" && !strings.Contains(told[0], fmt.Sprintf("%q", c.class)) {
				t.Errorf("Told %q", told)
			}
		})
	}
}

func TestPriorityOfTemplates(t *testing.T) {
	t.Parallel()
	for name, c := range resolutionCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w"}}
			w.Spec.PodGroupTemplates = []v1alpha1.PodGroupTemplate{
				{Name: "given", PodGroupPolicy: v1alpha1.PodGroupPolicy{Priority: ptr.To[int32](5), PreemptionPolicy: ptr.To(corev1.PreemptNever)}},
				{Name: "it", PodGroupPolicy: c.policy()},
			}
			cl := newClient(t, w)
			recorder := events.NewFakeRecorder(10)
			request := requestFor(w)
			if result, err := NewWorkloadResolver(cl, classes(t, c.classes...), recorder).Reconcile(t.Context(), request); err != nil || !result.IsZero() {
				t.Fatalf("Again: %+v, error: %v", result, err)
			}
			var got v1alpha1.Workload
			if err := cl.Get(t.Context(), request.NamespacedName, &got); err != nil {
				t.Fatal(err)
			}
			c.check(t, &got.Spec.PodGroupTemplates[1].PodGroupPolicy)
			if given := got.Spec.PodGroupTemplates[0]; *given.Priority != 5 || *given.PreemptionPolicy != corev1.PreemptNever {
				t.Errorf("What was given has become %+v", given)
			}
			if told := len(recorder.Events); (told == 1) != (c.want == nil) {
				t.Errorf("%d events", told)
			}
		})
	}
}

func nonEmpty(all ...string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

func TestTemplateIsFilledIn(t *testing.T) {
	t.Parallel()
	w := &v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w"}}
	w.Spec.PodGroupTemplates = []v1alpha1.PodGroupTemplate{
		{Name: "other"},
		{Name: "workers", PodGroupPolicy: v1alpha1.PodGroupPolicy{
			SchedulingPolicy:  gangGroup(4).Spec.SchedulingPolicy,
			DisruptionMode:    ptr.To(v1alpha1.DisruptionModePodGroup),
			PriorityClassName: ptr.To("a"),
			Priority:          ptr.To[int32](11),
			PreemptionPolicy:  ptr.To(corev1.PreemptNever),
			QueueName:         ptr.To("q"),
		}},
		{Name: "basic", PodGroupPolicy: v1alpha1.PodGroupPolicy{
			SchedulingPolicy: &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}},
			Priority:         ptr.To[int32](0),
			PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
		}},
		{Name: "unresolved", PodGroupPolicy: v1alpha1.PodGroupPolicy{
			SchedulingPolicy: gangGroup(4).Spec.SchedulingPolicy, PriorityClassName: ptr.To("a"),
		}},
		{Name: "unresolvable", PodGroupPolicy: v1alpha1.PodGroupPolicy{
			SchedulingPolicy: gangGroup(4).Spec.SchedulingPolicy, PriorityClassName: ptr.To("gone"),
		}},
	}
	from := func(template string, change ...func(*v1alpha1.PodGroupPolicy)) *v1alpha1.PodGroup {
		pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
		pg.Spec.PodGroupTemplateRef = &v1alpha1.PodGroupTemplateReference{WorkloadName: "w", PodGroupTemplateName: template}
		for _, f := range change {
			f(&pg.Spec.PodGroupPolicy)
		}
		return pg
	}
	cases := map[string]struct {
		group *v1alpha1.PodGroup
		alone bool
		want  func(*v1alpha1.PodGroupPolicy) bool
		// wantLack is the reason, and wantSaid is part of the message, if some fields cannot be
		// filled in.
		wantLack, wantSaid string
	}{
		"all of it": {
			group: from("workers"),
			want: func(p *v1alpha1.PodGroupPolicy) bool {
				return p.SchedulingPolicy.Gang.MinCount == 4 && *p.DisruptionMode == v1alpha1.DisruptionModePodGroup &&
					*p.PriorityClassName == "a" && *p.QueueName == "q"
			},
		},
		"its priority, whatever the class says now": {
			group: from("workers"),
			want: func(p *v1alpha1.PodGroupPolicy) bool {
				return *p.Priority == 11 && *p.PreemptionPolicy == corev1.PreemptNever
			},
		},
		"its priority for a group that names its class": {
			group: from("workers", func(p *v1alpha1.PodGroupPolicy) { p.PriorityClassName = ptr.To("a") }),
			want:  func(p *v1alpha1.PodGroupPolicy) bool { return *p.Priority == 11 },
		},
		"not its priority for a group of another class": {
			group: from("workers", func(p *v1alpha1.PodGroupPolicy) { p.PriorityClassName = ptr.To("b") }),
			want: func(p *v1alpha1.PodGroupPolicy) bool {
				return *p.Priority == 9 && *p.PriorityClassName == "b" && *p.PreemptionPolicy == corev1.PreemptLowerPriority
			},
		},
		"what is unset": {
			group: from("workers", func(p *v1alpha1.PodGroupPolicy) { p.DisruptionMode = ptr.To(v1alpha1.DisruptionModePod) }),
			want: func(p *v1alpha1.PodGroupPolicy) bool {
				return *p.DisruptionMode == v1alpha1.DisruptionModePod && p.SchedulingPolicy.Gang.MinCount == 4
			},
		},
		"the rest, where the priority is set": {
			group: from("workers", func(p *v1alpha1.PodGroupPolicy) { p.Priority = ptr.To[int32](1) }),
			want: func(p *v1alpha1.PodGroupPolicy) bool {
				return *p.Priority == 1 && p.SchedulingPolicy.Gang.MinCount == 4
			},
		},
		"no such template": {
			group: from("gone"), wantLack: v1alpha1.ReasonTemplateNotFound, wantSaid: "template gone of Workload w, which has no template of that name",
			want: func(p *v1alpha1.PodGroupPolicy) bool { return p.SchedulingPolicy == nil && p.Priority == nil },
		},
		"no such Workload": {
			group: from("workers"), alone: true, wantLack: v1alpha1.ReasonTemplateNotFound, wantSaid: "template workers of Workload w, which does not exist",
			want: func(p *v1alpha1.PodGroupPolicy) bool { return p.SchedulingPolicy == nil && p.Priority == nil },
		},
		"no such Workload, and a policy of its own": {
			group: from("workers", func(p *v1alpha1.PodGroupPolicy) { p.SchedulingPolicy = gangGroup(2).Spec.SchedulingPolicy }),
			alone: true, wantLack: v1alpha1.ReasonTemplateNotFound, wantSaid: "Workload w, which does not exist",
			want: func(p *v1alpha1.PodGroupPolicy) bool { return p.Priority == nil },
		},
		"a template that waits": {
			group: from("unresolved"), wantLack: v1alpha1.ReasonPending, wantSaid: "priority of template unresolved of Workload w",
			want: func(p *v1alpha1.PodGroupPolicy) bool {
				return p.SchedulingPolicy.Gang.MinCount == 4 && p.Priority == nil
			},
		},
		"a template that waits for a class": {
			group: from("unresolvable"), wantLack: v1alpha1.ReasonPriorityClassNotFound, wantSaid: `PriorityClass "gone"`,
			want: func(p *v1alpha1.PodGroupPolicy) bool { return *p.PriorityClassName == "gone" && p.Priority == nil },
		},
		"a mode that the template's policy does not allow": {
			group:    from("basic", func(p *v1alpha1.PodGroupPolicy) { p.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup) }),
			wantLack: v1alpha1.ReasonInvalidTemplate, wantSaid: "schedulingPolicy (that of template basic of Workload w) is basic",
			want: func(p *v1alpha1.PodGroupPolicy) bool { return p.SchedulingPolicy == nil && p.Priority == nil },
		},
		"the mode Never with the template's basic policy": {
			group:    from("basic", func(p *v1alpha1.PodGroupPolicy) { p.DisruptionMode = ptr.To(v1alpha1.DisruptionModeNever) }),
			wantLack: v1alpha1.ReasonInvalidTemplate,
			wantSaid: "disruptionMode Never (its own) takes the gang scheduling policy, and its schedulingPolicy (that of template basic of Workload w) is basic; create the PodGroup again",
			want:     func(p *v1alpha1.PodGroupPolicy) bool { return p.SchedulingPolicy == nil && p.Priority == nil },
		},
		"a policy that does not allow the template's mode": {
			group: from("workers", func(p *v1alpha1.PodGroupPolicy) {
				p.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
			}),
			wantLack: v1alpha1.ReasonInvalidTemplate, wantSaid: "disruptionMode PodGroup (that of template workers of Workload w)",
			want: func(p *v1alpha1.PodGroupPolicy) bool { return p.DisruptionMode == nil && p.Priority == nil },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var others []client.Object
			if !c.alone {
				others = append(others, w.DeepCopy())
			}
			got, gangs, told := resolve(t, classes(t, class("a", 7, false), class("b", 9, false)), c.group, others...)
			if !c.want(&got.Spec.PodGroupPolicy) {
				t.Errorf("The group is %+v", got.Spec)
			}
			if v := gangs.Unresolved(gang.KeyOf(groupKey)); v.Reason != c.wantLack || !strings.Contains(v.Message, c.wantSaid) {
				t.Errorf("Lacks %+v, want %s: %s", v, c.wantLack, c.wantSaid)
			}
			if len(told) != len(nonEmpty(c.wantLack)) || c.wantLack != "" && !strings.Contains(told[0], c.wantSaid) {
				t.Errorf("Told %q", told)
			}
		})
	}
}

// TestGroupThatGoes checks that the record about a group is deleted with the group.
func TestGroupThatGoes(t *testing.T) {
	t.Parallel()
	gangs := engine.New(nil).Gangs
	gangs.SetUnresolved(gang.KeyOf(groupKey), gang.Verdict{Reason: "x"})
	r := NewResolver(newClient(t), classes(t), gangs, events.NewFakeRecorder(1))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: groupKey}); err != nil {
		t.Fatal(err)
	}
	if v := gangs.Unresolved(gang.KeyOf(groupKey)); v != (gang.Verdict{}) {
		t.Errorf("Lacks %+v", v)
	}
}

// TestWhoIsLookedAtAgain checks that a new or changed PriorityClass or Workload requests the
// objects with empty fields that may depend on it.
func TestWhoIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	group := func(name, className, workload string, resolved bool) *v1alpha1.PodGroup {
		pg := gangGroup(2)
		pg.Name, pg.Spec.Priority, pg.Spec.PreemptionPolicy = name, nil, nil
		if className != "" {
			pg.Spec.PriorityClassName = &className
		}
		if workload != "" {
			pg.Spec.PodGroupTemplateRef = &v1alpha1.PodGroupTemplateReference{WorkloadName: workload, PodGroupTemplateName: "t"}
		}
		if resolved {
			pg.Spec.Priority, pg.Spec.PreemptionPolicy = ptr.To[int32](1), ptr.To(corev1.PreemptNever)
		}
		return pg
	}
	workload := func(name, className string) *v1alpha1.Workload {
		w := &v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		w.Spec.PodGroupTemplates = []v1alpha1.PodGroupTemplate{{Name: "t"}}
		if className != "" {
			w.Spec.PodGroupTemplates[0].PriorityClassName = &className
		}
		return w
	}
	elsewhere := group("elsewhere", "", "w", false)
	elsewhere.Namespace = "other"
	w := waiting{newClient(t, group("of-a", "a", "", false), group("of-b", "b", "", false), group("of-none", "", "", false),
		group("done", "a", "w", true), group("of-w", "b", "w", false), elsewhere, workload("w", "a"), workload("x", ""), workload("y", "b"))}
	names := func(requests []reconcile.Request) string {
		var out []string
		for _, r := range requests {
			out = append(out, r.Name)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for name, c := range map[string]struct{ got, want string }{
		"groups for a class":    {names(w.groupsForClass(t.Context(), class("a", 1, false))), "elsewhere of-a of-none"},
		"Workloads for a class": {names(w.workloadsForClass(t.Context(), class("a", 1, false))), "w x"},
		"groups of a Workload":  {names(w.groupsOfWorkload(t.Context(), workload("w", ""))), "of-w"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
}

func TestConflictsAreTriedAgain(t *testing.T) {
	t.Parallel()
	resource := v1alpha1.SchemeGroupVersion.WithResource("podgroups").GroupResource()
	cases := map[string]struct {
		err        error
		wantAgain  bool
		wantFailed bool
	}{
		"conflict":  {err: apierrors.NewConflict(resource, "g", errors.New("x")), wantAgain: true},
		"not found": {err: apierrors.NewNotFound(resource, "g")},
		"other":     {err: errors.New("x"), wantFailed: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := retryConflict(c.err)
			if (result.RequeueAfter > 0) != c.wantAgain || (err != nil) != c.wantFailed {
				t.Errorf("Again after %v, failed with %v", result.RequeueAfter, err)
			}
		})
	}
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	var trigger Trigger
	trigger.Request(types.NamespacedName{Name: "too early"})
	queues := make([]workqueue.TypedRateLimitingInterface[reconcile.Request], 2)
	for i := range queues {
		queues[i] = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queues[i].ShutDown)
		if err := trigger.Start(t.Context(), queues[i]); err != nil {
			t.Fatal(err)
		}
	}
	trigger.Request(groupKey)
	trigger.Request(groupKey)
	for i, queue := range queues {
		if n := queue.Len(); n != 1 {
			t.Fatalf("%d requests of controller %d", n, i)
		}
		if got, _ := queue.Get(); got.NamespacedName != groupKey {
			t.Errorf("Request for %v", got)
		}
	}
}

// TestConditionSaysWhatIsLacking checks that the condition PodGroupScheduled shows the Resolver's
// reason while fields are empty.
func TestConditionSaysWhatIsLacking(t *testing.T) {
	t.Parallel()
	lacks := gang.Verdict{Reason: v1alpha1.ReasonInvalidTemplate, Message: "because"}
	cases := map[string]struct {
		change     func(*v1alpha1.PodGroup)
		wantReason string
	}{
		"no priority": {func(pg *v1alpha1.PodGroup) { pg.Spec.Priority = nil }, v1alpha1.ReasonInvalidTemplate},
		"no policy": {func(pg *v1alpha1.PodGroup) {
			pg.Spec.SchedulingPolicy = nil
			pg.Spec.PodGroupTemplateRef = &v1alpha1.PodGroupTemplateReference{WorkloadName: "w", PodGroupTemplateName: "t"}
		}, v1alpha1.ReasonInvalidTemplate},
		"nothing any more": {func(*v1alpha1.PodGroup) {}, v1alpha1.ReasonPending},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := gangGroup(2)
			c.change(pg)
			b := newBench(t, pg)
			b.pods = named("p", 2)
			b.gangs.SetUnresolved(gang.KeyOf(groupKey), lacks)
			b.reconcile()
			got := meta.FindStatusCondition(b.group().Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
			if got == nil || got.Reason != c.wantReason {
				t.Errorf("The condition is %+v, want %s", got, c.wantReason)
			}
		})
	}
}
