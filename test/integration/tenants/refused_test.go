package tenants

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// working is an environment with running work of the tenant in a queue: a gang, a single pod and a
// tree. The tenant may use another queue too.
type working struct {
	*env
	team, other string
}

func newWorking(t *testing.T) *working {
	t.Helper()
	e := &working{env: newEnv(t)}
	e.AddNodes(16, "a")
	e.team, e.other = e.queue("team", v1alpha1.QueueSpec{}), e.queue("other", v1alpha1.QueueSpec{})
	e.do(e.edit.Create(t.Context(), e.group("training", "low", e.team, 1)))
	e.do(e.edit.Create(t.Context(), e.group("better", "high", e.team, 1)))
	tree := e.tree("serving", "low")
	e.do(e.edit.Create(t.Context(), tree))
	part := e.group("prefill", "low", e.team, 1)
	part.Spec.ParentCompositePodGroupName = &tree.Name
	e.do(e.edit.Create(t.Context(), part))
	e.running("training-0", "low", "a", 1, inGroup("training"))
	e.running("single", "low", "a", 1, inQueue(e.team))
	e.running("prefill-0", "low", "a", 1, inGroup("prefill"))
	e.forbidHigh()
	return e
}

// tree returns a CompositePodGroup that is preempted as a whole.
func (e *env) tree(name, class string) *v1alpha1.CompositePodGroup {
	tree := &v1alpha1.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	tree.Spec.PriorityClassName, tree.Spec.DisruptionMode = &class, ptr.To(v1alpha1.CompositeDisruptionModeAll)
	tree.Spec.SchedulingPolicy.Gang = &v1alpha1.CompositeGangSchedulingPolicy{MinGroupCount: 1}
	return tree
}

// patched returns an attempt to patch an object, as a dry run.
func (e *env) patched(obj client.Object, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		obj.SetNamespace(e.Namespace)
		obj.SetName(name)
		return e.edit.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}
}

// created returns an attempt to create an object, as a dry run.
func (e *env) created(obj client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return e.edit.Create(ctx, obj, client.DryRunAll) }
}

// deleted returns an attempt to delete an object, as a dry run.
func (e *env) deleted(obj client.Object, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		obj.SetNamespace(e.Namespace)
		obj.SetName(name)
		return e.edit.Delete(ctx, obj, client.DryRunAll)
	}
}

// attempt is an action of the tenant, with a part of the error that it must get.
type attempt struct {
	do   func(context.Context) error
	want string
}

func (e *working) attempts() map[string]attempt {
	const decides = "of a pod on a node cannot change, because it decides how the pod counts"
	pod, group := func() client.Object { return &corev1.Pod{} }, func() client.Object { return &v1alpha1.PodGroup{} }
	labeled := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value) }
	large := e.group("large", "low", "", 1)
	large.Annotations = map[string]string{"example.com/a": strings.Repeat("x", 70<<10)}
	largeTree := e.tree("large", "low")
	largeTree.Annotations = large.Annotations
	largePod := newPodOn(e.env, "large", "low", "a")
	largePod.Annotations = large.Annotations
	filled := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/a":%q}}}`, strings.Repeat("x", 70<<10))
	sealed := `{"metadata":{"annotations":{"reprieve.dev/placed-as":null}}}`
	raised := e.group("raised", "low", "", 1)
	raised.Spec.PreemptionPriorityClassName = ptr.To("high")
	prioritized := e.group("prioritized", "low", "", 1)
	prioritized.Spec.Priority = ptr.To[int32](1_000_000)
	queued := e.group("elsewhere", "low", "nobody-"+e.Namespace, 1)
	return map[string]attempt{
		"takes the queue off a pod":              {e.patched(pod(), "single", labeled(v1alpha1.LabelQueue, "null")), "the label reprieve.dev/queue " + decides},
		"moves a pod to another queue":           {e.patched(pod(), "single", labeled(v1alpha1.LabelQueue, `"`+e.other+`"`)), "the label reprieve.dev/queue " + decides},
		"gives a member a queue of its own":      {e.patched(pod(), "training-0", labeled(v1alpha1.LabelQueue, `"`+e.other+`"`)), "the label reprieve.dev/queue " + decides},
		"takes a member out of its group":        {e.patched(pod(), "training-0", labeled(v1alpha1.LabelPodGroup, "null")), "the label reprieve.dev/pod-group " + decides},
		"puts a pod into a group of class high":  {e.patched(pod(), "single", labeled(v1alpha1.LabelPodGroup, `"better"`)), "the label reprieve.dev/pod-group " + decides},
		"removes a seal":                         {e.patched(pod(), "single", sealed), "the annotation reprieve.dev/placed-as is the scheduler's record"},
		"deletes a group":                        {e.deleted(group(), "training"), `PodGroup "training" has members on nodes (1)`},
		"deletes a group of a tree":              {e.deleted(group(), "prefill"), `PodGroup "prefill" has members on nodes (1)`},
		"deletes a tree":                         {e.deleted(&v1alpha1.CompositePodGroup{}, "serving"), `CompositePodGroup "serving" has members on nodes (1)`},
		"moves a group to another queue":         {e.patched(group(), "training", `{"spec":{"queueName":"`+e.other+`"}}`), "field is immutable"},
		"changes the class of a group":           {e.patched(group(), "training", `{"spec":{"priorityClassName":"high"}}`), "field is immutable"},
		"raises minCount of what runs":           {e.patched(group(), "training", `{"spec":{"schedulingPolicy":{"gang":{"minCount":5}}}}`), "minCount"},
		"fills a group":                          {e.created(large), "have at most 65536 bytes"},
		"fills a tree":                           {e.created(largeTree), "have at most 65536 bytes"},
		"creates a large pod":                    {e.created(largePod), "of a pod have at most 65536 bytes"},
		"fills a pod":                            {e.patched(pod(), "single", filled), "of a pod have at most 65536 bytes"},
		"names a class that a quota forbids":     {e.created(e.group("high", "high", "", 1)), `ResourceQuota "no-high" allows fewer pods of PriorityClass "high"`},
		"names such a class in a tree":           {e.created(e.tree("high", "high")), `ResourceQuota "no-high" allows fewer pods of PriorityClass "high"`},
		"raises to a class that a quota forbids": {e.created(raised), `ResourceQuota "no-high" allows fewer pods of PriorityClass "high"`},
		"names a class of the system":            {e.created(e.group("system", "system-node-critical", "", 1)), "PriorityClasses whose names begin with system- are for PodGroups"},
		"names a class of the system in a tree":  {e.created(e.tree("system", "system-cluster-critical")), "PriorityClasses whose names begin with system- are for PodGroups"},
		"writes a priority":                      {e.created(prioritized), "priority"},
		"names a queue that does not exist":      {e.created(queued), ""},
		"writes the status of a group": {func(ctx context.Context) error {
			pg := e.group("training", "low", "", 1)
			return e.edit.Status().Patch(ctx, pg, client.RawPatch(types.MergePatchType, []byte(`{"status":{"scheduled":0}}`)), client.DryRunAll)
		}, `cannot patch resource "podgroups/status"`},
	}
}

// TestRefused tests actions of a tenant that the admission policies of deploy/ refuse, with the
// reason in the error.
func TestRefused(t *testing.T) {
	t.Parallel()
	e := newWorking(t)
	for name, a := range e.attempts() {
		// A policy sees the status of a group, or a new ResourceQuota, only some moments later.
		e.Eventually("the tenant "+name, func(ctx context.Context) string {
			err := a.do(ctx)
			switch {
			case err == nil && a.want != "":
				return "it is allowed"
			case err != nil && a.want == "":
				return err.Error()
			case err != nil && !strings.Contains(err.Error(), a.want):
				return fmt.Sprintf("it is refused with %q, want %q", err, a.want)
			}
			return ""
		})
	}
}
