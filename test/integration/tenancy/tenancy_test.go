package tenancy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// kind is the kind of work that a user creates.
type kind int

const (
	single kind = iota
	group
	template
)

// attempt is a case: a user tries to start work in a queue.
type attempt struct {
	kind                    kind
	namespace, queue, class string
	// want is the reason why the work must be rejected or must wait, or "" if it must start.
	want string
}

// attempts returns cases that are tested twice: with the admission policies, and with the scheduler
// alone. The results must be the same.
func attempts() map[string]attempt {
	const foreign, above = v1alpha1.ReasonQueueNotAllowed, v1alpha1.ReasonPriorityAboveQueue
	return map[string]attempt{
		"pod-own":                  {single, "r", "red", "mid", ""},
		"pod-none":                 {single, "r", "", "high", ""},
		"pod-for-all":              {single, "b", "open", "high", ""},
		"pod-of-another-team":      {single, "r", "blue", "", foreign},
		"pod-above":                {single, "r", "red", "high", above},
		"pod-default":              {single, "rd", "", "mid", ""},
		"pod-default-above":        {single, "rd", "", "high", above},
		"pod-other-than-default":   {single, "rd", "blue", "", foreign},
		"pod-inherited":            {single, "b", "below", "low", ""},
		"pod-inherited-foreign":    {single, "r", "below", "", foreign},
		"pod-inherited-above":      {single, "b", "below", "mid", above},
		"pod-not-in":               {single, "r", "not-blue", "", ""},
		"pod-not-in-foreign":       {single, "b", "not-blue", "", foreign},
		"pod-lacks-key":            {single, "b", "not-prod", "", ""},
		"pod-lacks-key-foreign":    {single, "r", "not-prod", "", foreign},
		"pod-both-parts":           {single, "r", "tiered", "", ""},
		"pod-one-part-of-two":      {single, "rd", "tiered", "", foreign},
		"group-own":                {group, "r", "red", "mid", ""},
		"group-of-another-team":    {group, "r", "blue", "", foreign},
		"group-above":              {group, "r", "red", "high", above},
		"group-default":            {group, "rd", "", "mid", ""},
		"group-default-above":      {group, "rd", "", "high", above},
		"group-inherited-foreign":  {group, "r", "below", "", foreign},
		"template-own":             {template, "r", "red", "low", ""},
		"template-of-another-team": {template, "r", "blue", "", foreign},
		"template-above":           {template, "r", "red", "high", above},
		"template-default-above":   {template, "rd", "", "high", above},
	}
}

// objects returns the objects that the user creates. The first object names the queue.
func (a attempt) objects(name string) []client.Object {
	if a.kind == single {
		return []client.Object{pod(a.namespace, name, a.queue, a.class, 0)}
	}
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	member := pod(a.namespace, name, "", "", 0, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPodGroup] = name })
	if a.kind == group {
		pg.Spec.PodGroupPolicy = policy(a.queue, a.class)
		return []client.Object{pg, member}
	}
	pg.Spec.PodGroupTemplateRef = &v1alpha1.PodGroupTemplateReference{WorkloadName: name, PodGroupTemplateName: "t"}
	return []client.Object{workload(a.namespace, name, a.queue, a.class), pg, member}
}

func TestTenancy(t *testing.T) {
	w := newWorld(t)
	t.Run("without the policies", func(t *testing.T) {
		for name, a := range attempts() {
			t.Run(name, func(t *testing.T) { w.in(t).scheduler(name, a) })
		}
	})
	for name, test := range map[string]func(*world){
		"what changes is followed":             followed,
		"what runs goes on":                    goesOn,
		"no preemptor, and no demand":          noPreemptor,
		"where a queue is required":            required,
		"a label that is changed on what runs": relabelled,
		"a preemption priority that falls":     raised,
		"preemption priorities of classes":     raisedClasses,
		"preemption priorities of Jobs":        raisedJobs,
	} {
		t.Run(name, func(t *testing.T) { test(w.in(t)) })
	}
	t.Run("derived groups without the policies", func(t *testing.T) { derivedGroups(t, w, "unbound") })
	w.policies()
	t.Run("derived groups with the policies", func(t *testing.T) { derivedGroups(t, w, "bound") })
	t.Run("with the policies", func(t *testing.T) {
		for name, a := range attempts() {
			t.Run(name, func(t *testing.T) { w.in(t).policy(name, a) })
		}
		t.Run("pods that are not held back", func(t *testing.T) { notHeld(w.in(t)) })
		t.Run("a preemption priority above the queue", func(t *testing.T) { raisedAbove(w.in(t)) })
		t.Run("a pod that runs", func(t *testing.T) { updates(w.in(t)) })
	})
}

// scheduler creates the work without the admission policies, and checks whether the scheduler
// starts it.
func (w *world) scheduler(name string, a attempt) {
	for _, o := range a.objects(name) {
		w.add(o)
	}
	switch {
	case a.want == "":
		w.placed(a.namespace, name)
	case a.kind == single:
		w.held(a.namespace, name, a.want)
	default:
		w.groupHeld(a.namespace, name, a.want)
	}
}

// policy creates, as a dry run and with the user's permissions, the object that names the queue. It
// checks the result of the admission policies.
func (w *world) policy(name string, a attempt) {
	err := w.as.Create(w.Context(), a.objects(name)[0], client.DryRunAll)
	says := map[string]string{
		v1alpha1.ReasonQueueNotAllowed: fmt.Sprintf("is not for namespace %q", a.namespace), v1alpha1.ReasonPriorityAboveQueue: "is above",
	}
	switch {
	case a.want == "" && err != nil:
		w.Errorf("it is refused: %v", err)
	case a.want != "" && (err == nil || !strings.Contains(err.Error(), says[a.want])):
		w.Errorf("got %v, want it refused: %s", err, says[a.want])
	}
}

// followed tests blocked work. The work must start after a change of its queue, its namespace, its
// label or a class permits it.
func followed(w *world) {
	w.namespace("n", map[string]string{"team": "green"}, "")
	w.queue("moving", "namespaceSelector: {matchLabels: {team: red}}")
	w.known("moving")
	w.add(pod("n", "queue", "moving", "", 0))
	w.held("n", "queue", v1alpha1.ReasonQueueNotAllowed)
	w.queue("moving", "namespaceSelector: {matchLabels: {team: green}}")
	w.placed("n", "queue")

	w.add(pod("n", "namespace", "red", "", 0))
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g"}, Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: policy("red", "")}}
	w.add(pg)
	w.add(pod("n", "g-0", "", "", 0, func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPodGroup] = "g" }))
	w.held("n", "namespace", v1alpha1.ReasonQueueNotAllowed)
	w.groupHeld("n", "g", v1alpha1.ReasonQueueNotAllowed)
	w.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, `{"metadata":{"labels":{"team":"red"}}}`)
	w.placed("n", "namespace")
	w.placed("n", "g-0")

	relabelled := pod("n", "label", "blue", "", 0)
	w.add(relabelled)
	w.held("n", "label", v1alpha1.ReasonQueueNotAllowed)
	w.patch(relabelled, `{"metadata":{"labels":{"reprieve.dev/queue":"red"}}}`)
	w.placed("n", "label")

	w.queue("moving", "maxPriorityClass: late")
	w.add(pod("n", "class", "moving", "mid", 0))
	w.Eventually("the queue says that its class is missing", func(ctx context.Context) string {
		var q v1alpha1.Queue
		if err := w.Objects.Get(ctx, types.NamespacedName{Name: "moving"}, &q); err != nil {
			return err.Error()
		}
		for _, c := range q.Status.Conditions {
			if c.Reason == v1alpha1.ReasonMaxPriorityUnknown {
				return ""
			}
		}
		return fmt.Sprintf("it says %+v", q.Status.Conditions)
	})
	w.CreateClasses(map[string]int32{"late": 100})
	w.placed("n", "class")
}

// patch applies a JSON merge patch to an object.
func (w *world) patch(o client.Object, text string) {
	w.Helper()
	if err := w.Objects.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.Fatal(err)
	}
}

// goesOn tests running work whose namespace loses the permission to use its queue. The work must
// continue to run, and other queues must not reclaim from it.
func goesOn(w *world) {
	w.queue("kept", "namespaceSelector: {matchLabels: {team: red}}", "quota: {nvidia.com/gpu: 8}")
	w.known("kept")
	for i := range 4 {
		w.add(pod("r", fmt.Sprint("kept-", i), "kept", "", 2))
		w.placed("r", fmt.Sprint("kept-", i))
	}
	w.add(pod("b", "claim", "blue", "high", 2))
	w.queue("kept", "namespaceSelector: {matchLabels: {team: blue}}", "quota: {nvidia.com/gpu: 8}")
	w.known("kept")
	w.Eventually("the other one has been tried", func(ctx context.Context) string {
		return w.toldOf(ctx, "b", "claim", "FailedScheduling")
	})
	w.uses("kept", "8")
	w.stay("r", "kept-0", "kept-1", "kept-2", "kept-3")
}

// uses waits until the status of a queue has a number of allocated GPUs.
func (w *world) uses(queue, want string) {
	w.Helper()
	w.Eventually("queue "+queue+" has "+want, func(ctx context.Context) string {
		var q v1alpha1.Queue
		if err := w.Objects.Get(ctx, types.NamespacedName{Name: queue}, &q); err != nil {
			return err.Error()
		}
		if has := q.Status.Allocated[gpu]; has.String() != want {
			return "it has " + has.String()
		}
		return ""
	})
}

// stay checks that the pods exist and are not terminating.
func (w *world) stay(namespace string, names ...string) {
	w.Helper()
	for _, name := range names {
		p, err := w.Kube.CoreV1().Pods(namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil || p.DeletionTimestamp != nil {
			w.Errorf("pod %s goes: %v", name, err)
		}
	}
}

// noPreemptor tests work that may not use its queue. Such work must not preempt, regardless of its
// priority, and must not count towards the demand of the queue.
func noPreemptor(w *world) {
	for i := range 4 {
		w.add(pod("b", fmt.Sprint("runs-", i), "blue", "low", 2))
		w.placed("b", fmt.Sprint("runs-", i))
	}
	w.add(pod("r", "taker", "blue", "high", 8))
	w.held("r", "taker", v1alpha1.ReasonQueueNotAllowed)
	w.stay("b", "runs-0", "runs-1", "runs-2", "runs-3")
	// The status of the queue is updated a moment after its work.
	w.Eventually("the queue asks for no more than what runs", func(ctx context.Context) string {
		var q v1alpha1.Queue
		if err := w.Objects.Get(ctx, types.NamespacedName{Name: "blue"}, &q); err != nil {
			return err.Error()
		}
		if asked := q.Status.Requested[gpu]; asked.String() != "8" || q.Status.Waiting != 0 {
			return fmt.Sprintf("the queue asks for %s, and %d wait", asked.String(), q.Status.Waiting)
		}
		return ""
	})
}

// required tests a profile that requires a queue. Work without a queue must wait and report the
// cause, until it gets a queue.
func required(w *world) {
	w.namespace("s", map[string]string{"team": "red"}, "")
	w.add(pod("s", "named", "red", "", 0, of(strict)))
	w.placed("s", "named")
	w.add(pod("s", "lost", "", "", 0, of(strict)))
	w.held("s", "lost", v1alpha1.ReasonQueueRequired)
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "s", Name: "g"}, Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: policy("", "")}}
	w.add(pg)
	w.add(pod("s", "g-0", "", "", 0, of(strict), func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPodGroup] = "g" }))
	w.groupHeld("s", "g", v1alpha1.ReasonQueueRequired)
	w.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, `{"metadata":{"annotations":{"reprieve.dev/queue":"open"}}}`)
	w.placed("s", "lost")
	w.placed("s", "g-0")
}

// relabelled changes the label that names the queue of a running pod. The pod must still count for
// its old queue.
func relabelled(w *world) {
	p := pod("r", "turncoat", "red", "", 2)
	w.add(p)
	w.placed("r", "turncoat")
	w.uses("red", "2")
	w.patch(p, `{"metadata":{"labels":{"reprieve.dev/queue":"blue"}}}`)
	w.patch(p, `{"metadata":{"labels":{"seen":"yes"}}}`)
	// When the scheduler has placed this pod, it has received the earlier change of the label.
	w.add(pod("r", "later", "red", "", 1))
	w.placed("r", "later")
	w.uses("red", "3")
	w.uses("blue", "0")
}

// updates tests the admission policies with updates of existing objects. They must accept a label
// that does not change, and check a label that changes.
func updates(w *world) {
	p := pod("r", "labels", "red", "", 0)
	w.add(p)
	w.placed("r", "labels")
	change := func(text string) error {
		return w.as.Patch(w.Context(), p.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	if err := change(`{"metadata":{"labels":{"reprieve.dev/queue":"blue"}}}`); err == nil {
		w.Error("another team's queue is let through")
	}
	if err := change(`{"metadata":{"labels":{"reprieve.dev/queue":"open"}}}`); err != nil {
		w.Errorf("a queue for all is refused: %v", err)
	}
	w.queue("red", "namespaceSelector: {matchLabels: {team: none}}")
	w.known("red")
	if err := change(`{"metadata":{"labels":{"a":"b"}}}`); err != nil {
		w.Errorf("a change of something else is refused: %v", err)
	}
}
