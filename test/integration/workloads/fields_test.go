package workloads

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// TestFieldsBehindGates tests fields that an API server of version 1.37 drops if their feature
// gates are off.
func TestFieldsBehindGates(t *testing.T) {
	t.Parallel()
	if version := stage.Kubernetes(t).WorkloadAPI; version != "v1beta1" {
		t.Skipf("%q does not have all of them", version)
	}
	e := start(t, map[string]string{playground.APIServer: fieldGates})
	e.Create(stage.NewClass("patient", 1000, stage.Never))
	t.Run("preemptionPolicy", func(t *testing.T) {
		t.Parallel()
		testPolicy(t, e)
	})
	t.Run("those that cannot be honoured are named", func(t *testing.T) {
		t.Parallel()
		testUnsupported(e.in(t))
	})
}

// testPolicy checks that the preemption policy of a PodGroup applies instead of the policies of its
// pods. The policy must apply even after the PriorityClass with this policy is deleted.
func testPolicy(t *testing.T, e *env) {
	cases := map[string]struct {
		minCount int64
		policy   corev1.PreemptionPolicy
		// pods is the PriorityClass of the pods.
		pods      string
		wantTaken bool
	}{
		"a gang with Never":                        {minCount: 2, policy: corev1.PreemptNever, pods: "high"},
		"a basic group with Never":                 {policy: corev1.PreemptNever, pods: "high"},
		"a gang with PreemptLowerPriority":         {minCount: 2, policy: corev1.PreemptLowerPriority, pods: "patient", wantTaken: true},
		"a basic group with PreemptLowerPriority":  {policy: corev1.PreemptLowerPriority, pods: "patient", wantTaken: true},
		"a gang whose pods are of the same policy": {minCount: 2, policy: corev1.PreemptLowerPriority, pods: "high", wantTaken: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := e.in(t)
			e.withPolicy("urgent", c.minCount, c.policy)
			e.AddNodes(4, "a")
			e.group("victims", 2, "low")
			e.members("victims", "low", 0, 2)
			e.Runs("victims-", 2)
			running := e.placed(e.Context(), "victims-")
			e.members("urgent", c.pods, 0, 2)
			if c.wantTaken {
				e.Runs("urgent-", 2)
				e.Runs("victims-", 0)
				return
			}
			e.WaitsSaying("urgent-0", "preemptionPolicy Never")
			if c.minCount > 0 {
				e.waits("urgent", v1alpha1.ReasonUnschedulable, "preemptionPolicy Never")
			}
			e.stayPlaced("victims-", running)
			e.noneBound("urgent-")
			e.remove("victims-0", "victims-1")
			e.Runs("urgent-", 2)
			e.scheduled("urgent")
		})
	}
}

// withPolicy creates a PodGroup with a new PriorityClass, and deletes the class. After that, only
// the PodGroup has the preemption policy.
func (e *env) withPolicy(name string, minCount int64, policy corev1.PreemptionPolicy) {
	e.Helper()
	class := stage.NewClass(e.Namespace, 1000, func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = &policy })
	e.Create(class)
	// Set the field explicitly. An API server of version 1.37 would set PreemptLowerPriority, and
	// reject the PodGroup if its class has the policy Never.
	spec := map[string]any{"priorityClassName": class.Name, "preemptionPolicy": string(policy)}
	e.Eventually("the API server knows the class", func(ctx context.Context) string {
		if err := e.Objects.Create(ctx, e.newPodGroup(name, minCount, spec)); apierrors.IsForbidden(err) {
			return err.Error()
		} else if err != nil {
			e.Fatal(err)
		}
		return ""
	})
	if got := e.policyOf(name); got != string(policy) {
		e.Fatalf("its policy is %q, want %s", got, policy)
	}
	if err := e.Objects.Delete(e.Context(), class); err != nil {
		e.Fatal(err)
	}
}

// policyOf returns the preemption policy that the API server has stored for a PodGroup.
func (e *env) policyOf(name string) string {
	e.Helper()
	u := e.newPodGroup(name, 0, map[string]any{})
	if err := e.Objects.Get(e.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		e.Fatal(err)
	}
	policy, _, err := unstructured.NestedString(u.Object, "spec", "preemptionPolicy")
	if err != nil {
		e.Fatal(err)
	}
	return policy
}

// testPolicyWithoutGate tests an API server that drops the field preemptionPolicy, because its
// feature gate is off. The policy of the PodGroup's class must apply.
func testPolicyWithoutGate(e *env) {
	e.AddNodes(4, "a")
	e.group("victims", 2, "low")
	e.members("victims", "low", 0, 2)
	e.Runs("victims-", 2)
	e.podGroup("urgent", 2, map[string]any{"priorityClassName": "high", "preemptionPolicy": "Never"})
	if got := e.policyOf("urgent"); got != "" {
		e.Fatalf("its policy is %q, although the gate is off", got)
	}
	e.members("urgent", "high", 0, 2)
	e.Runs("urgent-", 2)
	e.Runs("victims-", 0)
	e.scheduled("urgent")
}

// testFieldsWithoutGates tests fields that Reprieve does not support. The API server drops them,
// because their feature gates are off. So the PodGroup must be placed as usual.
func testFieldsWithoutGates(e *env) {
	e.AddNodes(4, "a")
	u := e.podGroup("defaults", 2, map[string]any{
		"schedulingConstraints":       map[string]any{"topology": []any{map[string]any{"key": corev1.LabelHostname}}},
		"resourceClaims":              []any{map[string]any{"name": "shared", "resourceClaimName": "claim"}},
		"parentCompositePodGroupName": "c",
		"workloadRef":                 map[string]any{"workloadName": "w", "templateName": "t"},
	})
	if err := e.Objects.Get(e.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		e.Fatal(err)
	}
	for _, field := range []string{"schedulingConstraints", "resourceClaims", "parentCompositePodGroupName"} {
		if _, kept, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", field); kept {
			e.Errorf("spec.%s is on by default, and Reprieve does not support it", field)
		}
	}
	e.members("defaults", "low", 0, 2)
	e.Runs("defaults-", 2)
	e.scheduled("defaults")
}

// testUnsupported tests PodGroups with fields that Reprieve does not support. Such PodGroups must
// wait although there is room, and a condition must name the unsupported field.
func testUnsupported(e *env) {
	e.AddNodes(32, "a")
	topology := map[string]any{"topology": []any{map[string]any{"key": corev1.LabelHostname}}}
	claims := []any{map[string]any{"name": "shared", "resourceClaimName": "claim"}}
	workload := map[string]any{"workloadName": "w", "templateName": "t"}
	cases := map[string]struct {
		minCount int64
		spec     map[string]any
		want     string
	}{
		"sharing": {2, map[string]any{"resourceClaims": claims}, "spec.resourceClaims"},
		"child":   {2, map[string]any{"parentCompositePodGroupName": "c", "workloadRef": workload}, "spec.parentCompositePodGroupName"},
		"both": {
			2, map[string]any{"schedulingConstraints": topology, "resourceClaims": claims},
			"spec.resourceClaims",
		},
	}
	for name, c := range cases {
		e.podGroup(name, c.minCount, c.spec)
		e.members(name, "low", 0, 2)
	}
	// A PodGroup without unsupported fields must be placed.
	e.podGroup("plain", 2, map[string]any{"workloadRef": workload})
	e.members("plain", "low", 0, 2)
	e.Runs("plain-", 2)
	// A PodGroup with one topology key must be placed in one domain, both as a gang and with the
	// basic policy.
	for name, minCount := range map[string]int64{"constrained": 2, "basic-constrained": 0} {
		e.podGroup(name, minCount, map[string]any{"schedulingConstraints": topology})
		e.members(name, "low", 0, 2)
		e.Runs(name+"-", 2)
	}
	for name, c := range cases {
		e.waits(name, v1alpha1.ReasonUnsupported, c.want)
		e.WaitEvent(name+"-0", "FailedScheduling", v1alpha1.ReasonUnsupported, c.want)
	}
	e.Never("they wait", func(ctx context.Context) string {
		for name := range cases {
			if got := e.placed(ctx, name+"-"); len(got) > 0 {
				return got[0] + " has a node"
			}
		}
		return ""
	})
}
