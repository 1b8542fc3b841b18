package priority

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	crds "github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

const (
	profile = "reprieve-scheduler"
	// patience is how long a test waits for what has to happen; watchFor is how long it watches for what must
	// not, longer than the scheduler's first back-off.
	patience = 60 * time.Second
	watchFor = 1500 * time.Millisecond
	interval = 50 * time.Millisecond
)

// env is a playground, and the namespace of one test in it.
type env struct {
	t *testing.T
	client.Client
	run *playground.Playground
	ns  string
}

// start starts a playground with the scheduler, and with what every test needs.
func start(t *testing.T) *env {
	t.Helper()
	run := playgroundtest.Start(t, playground.Options{
		BinDir: playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), profile)...),
		CRDs:   crds.FS,
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(run.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &env{t: t, Client: c, run: run}
}

// in makes a namespace for a test, named as the test is known here.
func (e *env) in(t *testing.T, ns string) *env {
	t.Helper()
	out := &env{t: t, Client: e.Client, run: e.run, ns: ns}
	out.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	out.eventually("the default service account exists", func(ctx context.Context) string {
		return problem(out.Get(ctx, client.ObjectKey{Namespace: ns, Name: "default"}, &corev1.ServiceAccount{}))
	})
	return out
}

func problem(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (e *env) create(objects ...client.Object) {
	e.t.Helper()
	for _, o := range objects {
		if err := e.Create(e.t.Context(), o); err != nil {
			e.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

func (e *env) remove(o client.Object) {
	e.t.Helper()
	if err := e.Delete(e.t.Context(), o); err != nil {
		e.t.Fatalf("delete %T %s: %v", o, o.GetName(), err)
	}
}

func (e *env) eventually(what string, condition func(ctx context.Context) string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	last := ""
	err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		last = condition(e.t.Context())
		return last == "", nil
	})
	if err != nil {
		e.t.Fatalf("%s: not within %v: %s", what, patience, last)
	}
}

func (e *env) never(what string, violation func(ctx context.Context) string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), watchFor)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, interval, true, func(context.Context) (bool, error) {
		if v := violation(e.t.Context()); v != "" {
			return false, fmt.Errorf("%s", v)
		}
		return false, nil
	})
	if !wait.Interrupted(err) {
		e.t.Fatalf("%s, but: %v", what, err)
	}
}

func class(name string, value int32, change ...func(*schedulingv1.PriorityClass)) *schedulingv1.PriorityClass {
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	for _, f := range change {
		f(c)
	}
	return c
}

func never(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = ptr.To(corev1.PreemptNever) }

func byDefault(c *schedulingv1.PriorityClass) { c.GlobalDefault = true }

// gangOf is the policy of a gang of a class, or of none.
func gangOf(minCount int32, className string) v1alpha1.PodGroupPolicy {
	p := v1alpha1.PodGroupPolicy{SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCount}}}
	if className != "" {
		p.PriorityClassName = &className
	}
	return p
}

func basic(className string) v1alpha1.PodGroupPolicy {
	p := gangOf(1, className)
	p.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Basic: &v1alpha1.BasicSchedulingPolicy{}}
	return p
}

func (e *env) group(name string, policy v1alpha1.PodGroupPolicy) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: name},
		Spec:       v1alpha1.PodGroupSpec{PodGroupPolicy: policy},
	}
}

// made is a group that is made from a template of the Workload w.
func (e *env) made(name, template string, policy v1alpha1.PodGroupPolicy) *v1alpha1.PodGroup {
	pg := e.group(name, policy)
	pg.Spec.PodGroupTemplateRef = &v1alpha1.PodGroupTemplateReference{WorkloadName: "w", PodGroupTemplateName: template}
	return pg
}

// workload is the Workload w.
func (e *env) workload(templates map[string]v1alpha1.PodGroupPolicy) *v1alpha1.Workload {
	w := &v1alpha1.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: "w"}}
	for name, policy := range templates {
		w.Spec.PodGroupTemplates = append(w.Spec.PodGroupTemplates, v1alpha1.PodGroupTemplate{Name: name, PodGroupPolicy: policy})
	}
	return w
}

// pod is a pod of one CPU for the nodes of a name.
func (e *env) pod(name, group, className, on string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName:                 profile,
			PriorityClassName:             className,
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			NodeSelector:                  map[string]string{corev1.LabelHostname: on},
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/main:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}},
		},
	}
	if group != "" {
		pod.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
	}
	return pod
}

// addNode creates a node with that many CPUs, and waits until pods can be placed on it.
func (e *env) addNode(name string, cpus int64) {
	e.t.Helper()
	room := corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourcePods: resource.MustParse("20"),
	}
	e.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.64.0.1"}},
		},
	})
	e.eventually("node "+name+" is ready", func(ctx context.Context) string {
		var node corev1.Node
		if err := e.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err.Error()
		}
		if len(node.Spec.Taints) > 0 {
			return "it has the taint " + node.Spec.Taints[0].Key
		}
		return ""
	})
}

func (e *env) nodeOf(ctx context.Context, name string) string {
	var pod corev1.Pod
	if err := e.Get(ctx, client.ObjectKey{Namespace: e.ns, Name: name}, &pod); err != nil {
		return ""
	}
	return pod.Spec.NodeName
}

func (e *env) waitBound(names ...string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("%v have a node", names), func(ctx context.Context) string {
		for _, name := range names {
			if e.nodeOf(ctx, name) == "" {
				return name + " has none"
			}
		}
		return ""
	})
}

func (e *env) stayUnbound(names ...string) {
	e.t.Helper()
	e.never(fmt.Sprintf("%v wait", names), func(ctx context.Context) string {
		for _, name := range names {
			if node := e.nodeOf(ctx, name); node != "" {
				return name + " is on " + node
			}
		}
		return ""
	})
}

// resolved says what a policy lacks to be resolved to that.
func resolved(policy *v1alpha1.PodGroupPolicy, priority int32, preemption corev1.PreemptionPolicy) string {
	if !ptr.Equal(policy.Priority, &priority) || !ptr.Equal(policy.PreemptionPolicy, &preemption) {
		return fmt.Sprintf("it has priority %v and policy %v, want %d and %s",
			ptr.Deref(policy.Priority, -1), ptr.Deref(policy.PreemptionPolicy, "none"), priority, preemption)
	}
	return ""
}

// waitResolved waits until a group has a priority and a policy.
func (e *env) waitResolved(name string, priority int32, preemption corev1.PreemptionPolicy) {
	e.t.Helper()
	e.eventually("PodGroup "+name+" is filled in", func(ctx context.Context) string {
		var pg v1alpha1.PodGroup
		if err := e.Get(ctx, client.ObjectKey{Namespace: e.ns, Name: name}, &pg); err != nil {
			return err.Error()
		}
		return resolved(&pg.Spec.PodGroupPolicy, priority, preemption)
	})
}

// waitTemplate waits until a template of the Workload w has a priority and a policy.
func (e *env) waitTemplate(name string, priority int32, preemption corev1.PreemptionPolicy) {
	e.t.Helper()
	e.eventually("template "+name+" is filled in", func(ctx context.Context) string {
		var w v1alpha1.Workload
		if err := e.Get(ctx, client.ObjectKey{Namespace: e.ns, Name: "w"}, &w); err != nil {
			return err.Error()
		}
		for i := range w.Spec.PodGroupTemplates {
			if t := &w.Spec.PodGroupTemplates[i]; t.Name == name {
				return resolved(&t.PodGroupPolicy, priority, preemption)
			}
		}
		return "there is no such template"
	})
}

// waitCondition waits until a condition of a group has that reason and mentions all of the phrases.
func (e *env) waitCondition(name, kind string, status metav1.ConditionStatus, reason string, phrases ...string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("PodGroup %s has condition %s=%s, %s", name, kind, status, reason), func(ctx context.Context) string {
		var pg v1alpha1.PodGroup
		if err := e.Get(ctx, client.ObjectKey{Namespace: e.ns, Name: name}, &pg); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(pg.Status.Conditions, kind)
		if c == nil {
			return "it has no such condition"
		}
		if c.Status != status || c.Reason != reason || !mentions(c.Message, phrases) {
			return fmt.Sprintf("it is %s, %s: %s (wanted %q)", c.Status, c.Reason, c.Message, phrases)
		}
		return ""
	})
}

// waitEvent waits until an event on an object has that reason and mentions all of the phrases.
func (e *env) waitEvent(kind, name, reason string, phrases ...string) {
	e.t.Helper()
	e.eventually(fmt.Sprintf("event %s on %s %s that mentions %q", reason, kind, name, phrases), func(ctx context.Context) string {
		var list eventsv1.EventList
		if err := e.List(ctx, &list, client.InNamespace(e.ns)); err != nil {
			return err.Error()
		}
		var seen []string
		for i := range list.Items {
			ev := &list.Items[i]
			if ev.Regarding.Kind != kind || ev.Regarding.Name != name {
				continue
			}
			if ev.Reason == reason && mentions(ev.Note, phrases) {
				return ""
			}
			seen = append(seen, ev.Reason+": "+ev.Note)
		}
		return fmt.Sprintf("seen: %q", seen)
	})
}

func mentions(text string, phrases []string) bool {
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }
