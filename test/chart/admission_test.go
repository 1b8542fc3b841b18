package chart

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// condition returns the CEL expression of a match condition in an admission policy.
func (o object) condition(name string) string {
	conditions, _ := o.at("spec", "matchConditions").([]any)
	for _, c := range conditions {
		if condition, _ := c.(map[string]any); condition["name"] == name {
			expression, _ := condition["expression"].(string)
			return expression
		}
	}
	return ""
}

// TestPoliciesOnPods checks the admission policies for pods: they must apply to the profiles of the
// release, and use the label that names a queue in each profile.
func TestPoliciesOnPods(t *testing.T) {
	t.Parallel()
	const (
		policy, binding = "ValidatingAdmissionPolicy  ", "ValidatingAdmissionPolicyBinding  "
		byLabel, other  = "pod-queues.reprieve.dev", "pod-queues.team.example.queue.reprieve.dev"
		byDefault       = "pod-default-queue.reprieve.dev"
		otherDefault    = "pod-default-queue.team.example.queue.reprieve.dev"
		whose, mine     = "is-for-reprieve", "names-queues-by-this-label"
	)
	for name, c := range map[string]struct {
		values string
		// want maps the name of an admission policy to the expressions of its match conditions. An
		// expression is "" if the policy must not have the condition.
		want map[string][2]string
		// absent has the names of admission policies that must not exist.
		absent []string
	}{
		"two profiles": {
			"profiles: [{schedulerName: a}, {schedulerName: b}]",
			map[string][2]string{byDefault: {whose, "object.spec.schedulerName in ['a', 'b']"}, byLabel: {mine, ""}},
			[]string{other, otherDefault},
		},
		"one with another label": {
			"profiles: [{schedulerName: a}, {schedulerName: b, args: {queueLabelKey: team.example/queue}}]",
			map[string][2]string{
				byDefault: {whose, "object.spec.schedulerName in ['a']"}, otherDefault: {whose, "object.spec.schedulerName in ['b']"},
				byLabel: {mine, "!(object.spec.schedulerName in ['b'])"}, other: {mine, "object.spec.schedulerName in ['b']"},
			},
			nil,
		},
		"one with another label, and PodGroups of the cluster": {
			"nativeWorkloadAPI: true\nprofiles: [{schedulerName: a}, {schedulerName: b, args: {queueLabelKey: team.example/queue}}]",
			map[string][2]string{
				byLabel: {mine, "!has(object.spec.schedulerName) || !(object.spec.schedulerName in ['b'])"},
				other:   {mine, "!has(object.spec.schedulerName) || object.spec.schedulerName in ['b']"},
			},
			nil,
		},
		"all with another label": {
			"profiles: [{schedulerName: b, args: {queueLabelKey: team.example/queue}}]",
			map[string][2]string{
				otherDefault: {whose, "object.spec.schedulerName in ['b']"},
				byLabel:      {mine, "!(object.spec.schedulerName in ['b'])"}, other: {mine, "object.spec.schedulerName in ['b']"},
			},
			[]string{byDefault},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := render(t, c.values, cluster{namespace: namespace})
			for name, condition := range c.want {
				if got := all[policy+name].condition(condition[0]); got != condition[1] {
					t.Errorf("of %s, %s is %q, want %q", name, condition[0], got, condition[1])
				}
				if got := all[binding+name].text("spec", "policyName"); got != name {
					t.Errorf("the binding of %s is for %q", name, got)
				}
			}
			for _, name := range c.absent {
				if all[policy+name] != nil || all[binding+name] != nil {
					t.Errorf("there is %s", name)
				}
			}
			for name, wantStandard := range map[string]bool{other: false, otherDefault: true} {
				raw, err := json.Marshal(all[policy+name])
				if err != nil {
					t.Fatal(err)
				}
				// Both policies must use the label of the profile. Only the policy about default
				// queues also names the key reprieve.dev/queue: the annotation of a namespace has
				// this key in all profiles.
				if text := string(raw); all[policy+name] != nil &&
					(!strings.Contains(text, `"key":"team.example/queue"`) || strings.Contains(text, "reprieve.dev/queue'") != wantStandard) {
					t.Errorf("%s goes by another label than it should: %s", name, text)
				}
			}
		})
	}
}

// variable returns the CEL expression of a variable in an admission policy.
func (o object) variable(name string) string {
	variables, _ := o.at("spec", "variables").([]any)
	for _, v := range variables {
		if variable, _ := v.(map[string]any); variable["name"] == name {
			expression, _ := variable["expression"].(string)
			return expression
		}
	}
	return ""
}

// TestPolicyOnPlacedPods checks the admission policy for pods that have a node. The policy must
// list all profiles of the release, the labels that name queues, and the labels in the rules of
// profiles.
func TestPolicyOnPlacedPods(t *testing.T) {
	t.Parallel()
	const policy = "ValidatingAdmissionPolicy  placed-pods.reprieve.dev"
	for name, c := range map[string]struct{ values, ours, labels string }{
		"by default": {"", "in ['reprieve-scheduler']", "['reprieve.dev/queue', 'reprieve.dev/pod-group', 'reprieve.dev/led-by'] + (variables.ours ? [ 'spark-role',"},
		"with profiles": {
			`profiles:
  - {schedulerName: a, args: {queueLabelKey: team.example/queue}}
  - schedulerName: b
    args: {groups: {rules: [{apiVersion: e.com/v1, kind: A, resource: as, nameLabel: e.com/a, roleLabel: e.com/role}, {apiVersion: e.com/v1, kind: B, resource: bs, nameLabel: e.com/b, roleLabel: e.com/role}]}}
`,
			"in ['a', 'b']",
			"['reprieve.dev/queue', 'team.example/queue', 'reprieve.dev/pod-group', 'reprieve.dev/led-by'] + (variables.ours ? [ 'e.com/a', 'e.com/role', 'e.com/b', 'spark-role',",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := render(t, c.values, cluster{namespace: namespace})[policy]
			if got := of.variable("ours"); !strings.HasSuffix(got, c.ours) {
				t.Errorf("its profiles are %q, want %q", got, c.ours)
			}
			if got := of.variable("labels"); !strings.HasPrefix(got, c.labels) {
				t.Errorf("its labels are %q, want %q", got, c.labels)
			}
		})
	}
}

// TestPodSize checks the admission policy for the size of pods: it must apply to the profiles of the
// release and have the configured bound, unless the values disable it.
func TestPodSize(t *testing.T) {
	t.Parallel()
	const policy = "pod-size.reprieve.dev"
	for name, c := range map[string]struct{ values, whose, bound string }{
		"by default":   {"", "object.spec.schedulerName in ['reprieve-scheduler']", "variables.metadata <= 65536 ||"},
		"with a bound": {"podSize: {metadata: 131072}", "object.spec.schedulerName in ['reprieve-scheduler']", "variables.metadata <= 131072 ||"},
		"with two profiles": {
			"profiles: [{schedulerName: a}, {schedulerName: b, args: {queueLabelKey: team.example/queue}}]",
			"object.spec.schedulerName in ['a', 'b']", "variables.metadata <= 65536 ||",
		},
		"disabled": {"podSize: {enabled: false}", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := render(t, c.values, cluster{namespace: namespace})
			o, bound := all["ValidatingAdmissionPolicy  "+policy], all["ValidatingAdmissionPolicyBinding  "+policy]
			if want := c.whose != ""; (o != nil) != want || (bound != nil) != want {
				t.Fatalf("there is the policy: %t, and its binding: %t, want %t", o != nil, bound != nil, want)
			}
			if o == nil {
				return
			}
			if got := o.condition("is-for-reprieve"); got != c.whose {
				t.Errorf("its profiles are %q, want %q", got, c.whose)
			}
			validations, _ := o.at("spec", "validations").([]any)
			first, _ := validations[0].(map[string]any)
			if got, _ := first["expression"].(string); !strings.HasPrefix(got, c.bound) {
				t.Errorf("its bound is %q, want %q", got, c.bound)
			}
			if got, _ := first["messageExpression"].(string); !strings.Contains(got, strings.Fields(c.bound)[2]+" bytes") {
				t.Errorf("its message is %q", got)
			}
		})
	}
}

// TestSystemClasses checks that only PodGroups and Workloads in the configured namespaces may use
// the system's PriorityClasses, unless the values disable this restriction.
func TestSystemClasses(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]any{
		"": []any{"kube-system"}, "systemClassNamespaces: [a, b]": []any{"a", "b"}, "confineSystemClasses: false": nil,
	} {
		all := render(t, values, cluster{namespace: namespace})
		for _, policy := range []string{"podgroup-system-classes.reprieve.dev", "workload-system-classes.reprieve.dev"} {
			o, bound := all["ValidatingAdmissionPolicy  "+policy], all["ValidatingAdmissionPolicyBinding  "+policy]
			if (o != nil) != (want != nil) || (bound != nil) != (want != nil) {
				t.Errorf("with %q there is %s: %t, and its binding: %t", values, policy, o != nil, bound != nil)
				continue
			}
			if want == nil {
				continue
			}
			expressions, _ := o.at("spec", "matchConstraints", "namespaceSelector", "matchExpressions").([]any)
			selected, _ := expressions[0].(map[string]any)
			if !reflect.DeepEqual(selected["values"], want) {
				t.Errorf("with %q, %s is for all but %v, want %v", values, policy, selected["values"], want)
			}
		}
	}
}
