package grouping

import (
	"reflect"
	"strings"
	"testing"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
)

// TestReduce checks that a reduced object has exactly the fields that grouping reads, and that its
// Reading equals the Reading of the whole object.
func TestReduce(t *testing.T) {
	t.Parallel()
	const head = "metadata: {namespace: ns, name: x, uid: u, creationTimestamp: '2026-01-02T03:04:05Z', annotations: {reprieve.dev/gang: 'true', who: alice}, labels: {reprieve.dev/queue: q, who: alice}}\n"
	for name, c := range map[string]struct {
		object string
		needs  []string
	}{
		"a JobSet": {
			"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n" + head +
				"spec: {replicatedJobs: [{name: a, dependsOn: [{name: secret}], template: {spec: {parallelism: 2, template: {spec: {containers: [{image: secret}]}}}}}]}",
			[]string{"gang", "parallelism", "dependsOn", `"q"`},
		},
		"a PyTorchJob": {
			"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n" + head +
				"spec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: [{env: [{value: secret}]}]}}}, Worker: {replicas: 3}}}",
			[]string{"Master", "replicas"},
		},
		"a SparkApplication": {
			"apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\n" + head +
				"spec: {sparkConf: {password: secret}, mainApplicationFile: secret, executor: {instances: 2, env: [{value: secret}]}, driver: {secret: 1}}\nstatus: {secret: 1}",
			[]string{"instances"},
		},
		"a PodGroup of Volcano's": {
			"apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n" + head + "spec: {minMember: 3, queue: q, priorityClassName: high, minTaskMember: {secret: 1}}",
			[]string{"minMember", "high"},
		},
		"one that is refused": {
			"apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n" + head + "spec: {minMember: 3, networkTopology: {mode: secret}}",
			[]string{"networkTopology"},
		},
		"one that leaves what is refused empty": {
			"apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n" + head + "spec: {minMember: 3, networkTopology: {}}",
			[]string{"minMember"},
		},
		"one of KAI's without a number of the whole": {
			"apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\n" + head + "spec: {subGroups: [{name: secret, minMember: 3}]}",
			[]string{"subGroups"},
		},
		"numbers where objects are": {
			"apiVersion: batch/v1\nkind: Job\n" + head + "spec: {parallelism: {secret: 1}, completions: [secret]}", []string{"parallelism"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := objectFrom(t, c.object)
			rule := BuiltIn()[u.GetKind()]
			if rule == nil {
				rule = foreign(configv1alpha1.LabelsVolcano).rules[0]
				if strings.Contains(u.GetAPIVersion(), "run.ai") {
					rule = foreign(configv1alpha1.LabelsKAI).rules[0]
				}
			}
			kind := Kind{rule: rule}
			reduced := kind.Reduce(u)
			if got := reduced.GetCreationTimestamp(); got != u.GetCreationTimestamp() || got.IsZero() {
				t.Errorf("it was created at %s, and once it is reduced at %s", u.GetCreationTimestamp(), got)
			}
			raw, err := reduced.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"secret", "alice"} {
				if strings.Contains(string(raw), word) {
					t.Errorf("%q is still in %s", word, raw)
				}
			}
			for _, word := range c.needs {
				if !strings.Contains(string(raw), word) {
					t.Errorf("%q is not in %s", word, raw)
				}
			}
			before, after := rule.Read(u), rule.Read(reduced)
			// The flaw quotes the invalid value, which may be reduced.
			before.Flaw, _, _ = strings.Cut(before.Flaw, " is ")
			after.Flaw, _, _ = strings.Cut(after.Flaw, " is ")
			if !reflect.DeepEqual(before, after) {
				t.Errorf("it reads %+v, and %+v once it is reduced", before, after)
			}
		})
	}
}
