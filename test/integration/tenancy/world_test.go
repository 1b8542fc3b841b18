package tenancy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	gpu corev1.ResourceName = "nvidia.com/gpu"
	// strict is the name of a profile that requires a queue.
	strict = "strict"
	// tenant is the name of a user who may create the objects of teams, and nothing else.
	tenant = "alice"
)

// world is a cluster with one node, two teams with their queues, and two profiles.
type world struct {
	*stage.Stage
	// as is a client with the permissions of the user tenant.
	as client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config, err := (stage.Config{Profiles: []string{
		stage.ProfileConfig(stage.Profile, "{name: Reprieve, args: {groups: {kinds: [Job], labels: [volcano, kai, koordinator]}}}"),
		stage.ProfileConfig(strict, "{name: Reprieve, args: {queues: {required: true}}}"),
	}}).Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := stage.New(t, playground.Options{
		Scheduler: playground.SchedulerOptions{Config: config},
		NodeGroups: []playground.NodeGroup{{Count: 1, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), gpu: resource.MustParse("8"),
		}}},
	})
	w := &world{Stage: s}
	w.populate()
	return w
}

func (w *world) populate() {
	w.Helper()
	for name, value := range map[string]int32{"low": 10, "mid": 100, "high": 1000} {
		w.Create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})
	}
	w.namespace("r", map[string]string{"team": "red", "tier": "prod"}, "")
	w.namespace("b", map[string]string{"team": "blue"}, "")
	w.namespace("rd", map[string]string{"team": "red"}, "red")
	w.namespace("rm", map[string]string{"team": "red"}, "red")
	w.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rm"}}, `{"metadata":{"annotations":{"reprieve.dev/priority-class":"mid"}}}`)
	w.queue("red", "namespaceSelector: {matchLabels: {team: red}}", "maxPriorityClass: mid")
	w.queue("blue", "namespaceSelector: {matchLabels: {team: blue}}")
	w.queue("open")
	w.queue("org", "namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [blue]}]}", "maxPriorityClass: low")
	w.queue("below", "parent: org")
	w.queue("not-blue", "namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [blue, green]}]}")
	w.queue("not-prod", "namespaceSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}")
	w.queue("tiered", "namespaceSelector: {matchLabels: {team: red}, matchExpressions: [{key: tier, operator: Exists}]}")
	w.known("red", "blue", "open", "below", "not-blue", "not-prod", "tiered")
	w.Create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "update", "patch", "get"}},
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"podgroups", "workloads"}, Verbs: []string{"create", "update", "patch", "get"}},
	}})
	w.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: tenant, APIGroup: rbacv1.GroupName}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tenant"},
	})
	config := rest.CopyConfig(w.Run.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: tenant}
	config.QPS = -1
	as, err := client.New(config, client.Options{Scheme: w.Objects.Scheme()})
	if err != nil {
		w.Fatal(err)
	}
	w.as = as
}

// in returns the world for a subtest.
func (w *world) in(t *testing.T) *world { return &world{Stage: w.For(t), as: w.as} }

func (w *world) namespace(name string, labels map[string]string, queue string) {
	w.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if queue != "" {
		ns.Annotations = map[string]string{v1alpha1.AnnotationDefaultQueue: queue}
	}
	w.Create(ns)
	w.Eventually("the default service account of "+name+" exists", func(ctx context.Context) string {
		if _, err := w.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// queue creates or updates a Queue. Each element of spec is a line of YAML.
func (w *world) queue(name string, spec ...string) {
	w.Helper()
	text := fmt.Sprintf("apiVersion: reprieve.dev/v1alpha1\nkind: Queue\nmetadata:\n  name: %s\nspec:\n  overQuotaWeight: 1\n", name)
	for _, line := range spec {
		text += "  " + line + "\n"
	}
	w.ApplyText(text)
}

// known waits until the scheduler has cached the Queues and updated their status.
func (w *world) known(names ...string) {
	w.Helper()
	for _, name := range names {
		w.Eventually("queue "+name+" is known", func(ctx context.Context) string {
			var q v1alpha1.Queue
			if err := w.Objects.Get(ctx, types.NamespacedName{Name: name}, &q); err != nil {
				return err.Error()
			}
			ready := apimeta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionQueueReady)
			if ready == nil || ready.ObservedGeneration != q.Generation {
				return fmt.Sprintf("it is of generation %d, and says %+v", q.Generation, ready)
			}
			return ""
		})
	}
}

// pod returns a pod that requests GPUs, in a queue and with a priority class.
func pod(namespace, name, queue, class string, gpus int64, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName: stage.Profile, PriorityClassName: class, TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/work"}},
		},
	}
	if queue != "" {
		p.Labels[v1alpha1.LabelQueue] = queue
	}
	if gpus > 0 {
		q := corev1.ResourceList{gpu: *resource.NewQuantity(gpus, resource.DecimalSI)}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: q, Limits: q}
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func of(profile string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = profile }
}

func policy(queue, class string) v1alpha1.PodGroupPolicy {
	out := v1alpha1.PodGroupPolicy{SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 1}}}
	if queue != "" {
		out.QueueName = &queue
	}
	if class != "" {
		out.PriorityClassName = &class
	}
	return out
}

// add creates an object. It is deleted after the test.
func (w *world) add(o client.Object) {
	w.Helper()
	w.Create(o)
	w.Cleanup(func() {
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		if err := client.IgnoreNotFound(w.Objects.Delete(context.WithoutCancel(w.Context()), o, background, client.GracePeriodSeconds(0))); err != nil {
			w.Errorf("delete %s: %v", o.GetName(), err)
		}
	})
}

// placed waits until a pod has a node.
func (w *world) placed(namespace, name string) {
	w.Helper()
	w.Eventually("pod "+name+" has a node", func(ctx context.Context) string {
		p, err := w.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case p.Spec.NodeName == "":
			return fmt.Sprintf("it has none: %+v", p.Status.Conditions)
		}
		return ""
	})
}

// held waits until a pod's condition and an event have the reason why the pod waits.
func (w *world) held(namespace, name, reason string) {
	w.Helper()
	w.Eventually("pod "+name+" waits for "+reason, func(ctx context.Context) string {
		p, err := w.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == reason && p.Spec.NodeName == "" {
				return w.toldOf(ctx, namespace, name, reason)
			}
		}
		return fmt.Sprintf("it is on node %q, and says %+v", p.Spec.NodeName, p.Status.Conditions)
	})
}

// toldOf returns "" if an event about an object has the reason. Otherwise it returns a description.
func (w *world) toldOf(ctx context.Context, namespace, name, reason string) string {
	events, err := w.Kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, e := range events.Items {
		if e.Regarding.Name == name && e.Reason == reason {
			return ""
		}
	}
	return "there is no event " + reason
}

// groupHeld waits until the condition of a PodGroup has the reason why its members wait.
func (w *world) groupHeld(namespace, name, reason string) {
	w.Helper()
	w.Eventually("PodGroup "+name+" waits for "+reason, func(ctx context.Context) string {
		var pg v1alpha1.PodGroup
		if err := w.Objects.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pg); err != nil {
			return err.Error()
		}
		c := apimeta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return fmt.Sprintf("it says %+v", c)
		}
		return ""
	})
}

// policies installs the admission policies for queues. It waits until they take effect.
func (w *world) policies() {
	w.Helper()
	raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(w), "deploy", "admission-queues.yaml"))
	if err != nil {
		w.Fatal(err)
	}
	w.ApplyText(string(raw))
	for what, o := range map[string]client.Object{
		"pods":              pod("r", "probe", "blue", "", 0),
		"pods of a default": pod("rd", "probe", "", "high", 0),
		"PodGroups":         &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "r", Name: "probe"}, Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: policy("blue", "")}},
		"Workloads":         workload("r", "probe", "blue", ""),
	} {
		w.Eventually("the policy for "+what+" is in force", func(ctx context.Context) string {
			if err := w.as.Create(ctx, o, client.DryRunAll); err == nil {
				return "it is let through"
			}
			return ""
		})
	}
}

func workload(namespace, name, queue, class string) *v1alpha1.Workload {
	return &v1alpha1.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.WorkloadSpec{PodGroupTemplates: []v1alpha1.PodGroupTemplate{{Name: "t", PodGroupPolicy: policy(queue, class)}}},
	}
}
