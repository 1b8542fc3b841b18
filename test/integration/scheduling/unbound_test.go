package scheduling

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestRefusedBindings tests a preemptor whose bindings the API server rejects, while a controller
// replaces its victims. After the first failure, the scheduler must not evict pods for it again
// until the preemptor is changed.
func TestRefusedBindings(t *testing.T) {
	t.Parallel()
	each(t, map[string]int{"of a pod": 0, "of a gang": 2}, func(e *env, members int) {
		e.AddNodes(4, "a")
		e.replicas("victims", 4, podSpec{cpus: 1, priority: "low"})
		e.Runs("victims", 4)
		evicted := e.countEvicted("victims")
		allow := e.refuseBindings("urgent")
		preemptors := []string{"urgent"}
		if members > 0 {
			preemptors = []string{"urgent-0", "urgent-1"}
			e.gang(stage.Group{Name: "urgent", MinCount: int32(members), Priority: "high"}, members, podSpec{cpus: 1})
		} else {
			e.create(podSpec{name: "urgent", cpus: 2, priority: "high"})
		}
		e.Eventually("it says that it could not be bound", func(ctx context.Context) string {
			last := ""
			for _, name := range preemptors {
				pod := e.Find(ctx, name)
				for i := range pod.Status.Conditions {
					last += pod.Status.Conditions[i].Message + "\n"
				}
			}
			if !strings.Contains(last, "did not end in a binding, so it preempts nothing before") || !strings.Contains(last, "no bindings here") {
				return "the conditions say: " + last
			}
			return ""
		})
		e.Runs("victims", 4)
		e.NeverFor(15*time.Second, 200*time.Millisecond, "nobody is preempted any more", func(ctx context.Context) string {
			for _, name := range preemptors {
				if pod := e.Find(ctx, name); pod.Status.NominatedNodeName != "" {
					return name + " is nominated"
				}
			}
			if n := evicted(); n > 2 {
				return fmt.Sprintf("%d are evicted, want 2", n)
			}
			return ""
		})
		allow()
		e.annotate(preemptors[len(preemptors)-1])
		for _, name := range preemptors {
			e.waitRunning(name)
		}
		if n := evicted(); n < 2 || n > 4 {
			e.Errorf("%d are evicted by the end, want 4", n)
		}
	})
}

// replicas creates a ReplicaSet with count pods.
func (e *env) replicas(name string, count int32, of podSpec) {
	e.Helper()
	of.name = name
	pod := of.build(e)
	pod.Labels["app"] = name
	pod.Spec.TerminationGracePeriodSeconds = nil
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To(count), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
	e.Create(rs)
	e.Cleanup(func() {
		if err := e.Kube.AppsV1().ReplicaSets(e.Namespace).Delete(context.WithoutCancel(e.Context()), name, metav1.DeleteOptions{}); err != nil {
			e.Error(err)
		}
	})
}

// countEvicted watches pods with a name prefix. It returns a function that returns the number of
// preempted pods so far.
func (e *env) countEvicted(prefix string) func() int {
	e.Helper()
	var mu sync.Mutex
	evicted := sets.New[types.UID]()
	e.FollowPods("", func(_ watch.EventType, pod *corev1.Pod) {
		if !strings.HasPrefix(pod.Name, prefix) {
			return
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
				mu.Lock()
				evicted.Insert(pod.UID)
				mu.Unlock()
			}
		}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return evicted.Len()
	}
}

// refuseBindings creates an admission policy that rejects bindings of pods with a name prefix. The
// function allow removes the policy.
func (e *env) refuseBindings(prefix string) (allow func()) {
	e.Helper()
	name := e.Namespace + ".example.com"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "!request.name.startsWith('" + prefix + "')", Message: "no bindings here"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	e.Create(policy, binding)
	probe := stage.NewPod(e.Namespace, prefix+"-probe", "low", 1)
	probe.Spec.SchedulerName = "nobody"
	e.Create(probe)
	to := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: probe.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "none"}}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	bind := func(ctx context.Context) error { return e.Kube.CoreV1().Pods(e.Namespace).Bind(ctx, to, dryRun) }
	e.Eventually("bindings are refused", func(ctx context.Context) string {
		if err := bind(ctx); err == nil || !strings.Contains(err.Error(), "no bindings here") {
			return fmt.Sprint("the answer is ", err)
		}
		return ""
	})
	e.Cleanup(func() { e.removePolicy(policy, binding) })
	return func() {
		e.removePolicy(policy, binding)
		e.Eventually("bindings are allowed", func(ctx context.Context) string {
			if err := bind(ctx); err != nil {
				return err.Error()
			}
			return ""
		})
		e.remove(probe.Name)
	}
}

func (e *env) removePolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	admission, ctx := e.Kube.AdmissionregistrationV1(), context.WithoutCancel(e.Context())
	for _, err := range []error{
		admission.ValidatingAdmissionPolicyBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}),
		admission.ValidatingAdmissionPolicies().Delete(ctx, policy.Name, metav1.DeleteOptions{}),
	} {
		if client.IgnoreNotFound(err) != nil {
			e.Error(err)
		}
	}
}

// annotate changes an annotation of a pod.
func (e *env) annotate(name string) {
	e.Helper()
	patch := []byte(`{"metadata":{"annotations":{"example.com/retry":"now"}}}`)
	if _, err := e.Kube.CoreV1().Pods(e.Namespace).Patch(e.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		e.Fatalf("annotate pod %s: %v", name, err)
	}
}
