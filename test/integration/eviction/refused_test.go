package eviction

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/eviction"
)

// orderOf returns an order with victims: all pods of each PodGroup, and single pods.
func orderOf(units map[*v1alpha1.PodGroup][]*corev1.Pod, singles ...*corev1.Pod) eviction.Order {
	order := eviction.Order{
		Decision: core.Decision{Preemptor: core.Preemptor{Namespace: "default", Name: "urgent", Priority: 9}},
		Victims:  map[types.UID]*corev1.Pod{},
	}
	add := func(v core.Victim, pods ...*corev1.Pod) {
		for _, pod := range pods {
			v.Pods = append(v.Pods, core.VictimPod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
			order.Victims[pod.UID] = pod
		}
		order.Decision.Victims = append(order.Decision.Victims, v)
	}
	for _, pod := range singles {
		add(core.Victim{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Rule: core.RuleLowerPriority}, pod)
	}
	for group, pods := range units {
		add(core.Victim{Namespace: group.Namespace, Name: group.Name, UID: string(group.UID), Group: true, Rule: core.RuleLowerPriority}, pods...)
	}
	return order
}

// carryOut runs an order to its end and returns its outcome.
func carryOut(t *testing.T, e *eviction.Executor, order eviction.Order) eviction.Outcome {
	t.Helper()
	outcomes := e.Evict(t.Context(), order, bound{})
	e.Wait()
	return <-outcomes
}

// requireStays fails the test unless the pod is unchanged.
func requireStays(t *testing.T, kube kubernetes.Interface, pod *corev1.Pod) {
	t.Helper()
	got, err := kube.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.DeletionTimestamp != nil || got.ResourceVersion != pod.ResourceVersion {
		t.Errorf("Pod %s has been touched: deleted at %v, with conditions %+v", pod.Name, got.DeletionTimestamp, got.Status.Conditions)
	}
}

// TestRefusedDeletions tests orders with deletions that the API server rejects: because of an
// admission policy, or because a webhook does not answer. The eviction must return an error and
// delete no victim of the order.
func TestRefusedDeletions(t *testing.T) {
	config := startAPIServer(t)
	kube, groups := clientsOf(t, config)
	executor := newExecutor(t, kube, groups)
	t.Run("a policy", func(t *testing.T) {
		keepNamed(t, kube, "kept")
		kept := create(t, kube, "kept")
		eventually(t, "the policy is in force", func() bool {
			err := kube.CoreV1().Pods("default").Delete(t.Context(), "kept", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), "it is kept")
		})
		if err := carryOut(t, executor, orderOf(nil, kept)).Err; err == nil || !strings.Contains(err.Error(), "it is kept") {
			t.Fatalf("It ends with %v", err)
		}
		marked, err := kube.CoreV1().Pods("default").Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		neighbour := create(t, kube, "neighbour")
		if outcome := carryOut(t, executor, orderOf(nil, neighbour, marked)); outcome.Err == nil || outcome.Begun.Len() > 0 {
			t.Errorf("It ends with %v, %v have begun to go", outcome.Err, outcome.Begun)
		}
		requireStays(t, kube, neighbour)
		requireStays(t, kube, marked)
	})
	t.Run("a webhook that does not answer", func(t *testing.T) {
		group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}, Spec: v1alpha1.PodGroupSpec{PodGroupPolicy: v1alpha1.PodGroupPolicy{
			SchedulingPolicy: &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: 2}},
		}}}
		if err := groups.Create(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		members := []*corev1.Pod{create(t, kube, "g-0"), create(t, kube, "g-1")}
		order := orderOf(map[*v1alpha1.PodGroup][]*corev1.Pod{group: members})
		remove := askNobody(t, kube)
		eventually(t, "the webhook is asked", func() bool {
			err := kube.CoreV1().Pods("default").Delete(t.Context(), "g-0", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), "failed calling webhook")
		})
		if outcome := carryOut(t, newExecutor(t, kube, groups), order); outcome.Err == nil || outcome.Begun.Len() > 0 {
			t.Errorf("It ends with %v, %v have begun to go", outcome.Err, outcome.Begun)
		}
		var now v1alpha1.PodGroup
		if err := groups.Get(t.Context(), client.ObjectKeyFromObject(group), &now); err != nil {
			t.Fatal(err)
		}
		if now.Status.Disruption != nil {
			t.Errorf("The group is still to go: %+v", now.Status.Disruption)
		}
		remove()
		eventually(t, "the group goes when there is nothing to be asked", func() bool { return carryOut(t, executor, order).Err == nil })
	})
}

// keepNamed creates an admission policy that rejects the deletion of pods with the given name.
func keepNamed(t *testing.T, kube kubernetes.Interface, name string) {
	t.Helper()
	admission := kube.AdmissionregistrationV1()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "keep.example.com"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
				{RuleWithOperations: deletionsOfPods()},
			}},
			Validations: []admissionregistrationv1.Validation{{Expression: "request.name != '" + name + "'", Message: "it is kept"}},
		},
	}
	if _, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "keep.example.com"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	if _, err := admission.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// askNobody registers a webhook for deletions. No server runs at its address. The function remove
// unregisters the webhook.
func askNobody(t *testing.T, kube kubernetes.Interface) (remove func()) {
	t.Helper()
	webhooks := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "away.example.com"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "away.example.com", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](1),
			ClientConfig:  admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			SideEffects:   ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			Rules:         []admissionregistrationv1.RuleWithOperations{deletionsOfPods()},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := webhooks.Delete(t.Context(), "away.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func deletionsOfPods() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}
}

// eventually waits until holds returns true. The test fails after 30 seconds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("Waited for half a minute until %s", what)
		}
	}
}
