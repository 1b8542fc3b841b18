package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// everything has values that add each optional object and field.
const everything = `
image: {digest: "sha256:0123456789012345678901234567890123456789012345678901234567890123", pullPolicy: Always, pullSecrets: [{name: pull}]}
replicas: 3
resources: {requests: {cpu: "1"}, limits: {memory: 4Gi}}
extraArgs: ["--decision-log=/var/log/reprieve/decisions.jsonl"]
extraVolumes: [{name: decisions, emptyDir: {}}]
extraVolumeMounts: [{name: decisions, mountPath: /var/log/reprieve}]
extraContainers: [{name: ships, image: shipper, volumeMounts: [{name: decisions, mountPath: /var/log/reprieve}]}]
onControlPlane: true
nodeSelector: {pool: system}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
podAnnotations: {a: b}
podLabels: {c: d}
profiles:
  - schedulerName: first
    args: {preemptMinRuntime: 5m}
    pluginConfig: [{name: NodeAffinity, args: {}}]
  - schedulerName: second
    args: {queueLabelKey: team.example/queue}
    plugins: {score: {disabled: [{name: ImageLocality}]}}
configuration: {parallelism: 32, leaderElection: {leaseDuration: 30s}}
queues: [{name: research, spec: {quota: {cpu: "8"}}, caps: {preemptMinRuntime: 1h30m}, owners: [{kind: ServiceAccount, namespace: a, name: b}]}]
nativeWorkloadAPI: true
systemClassNamespaces: [kube-system, node-agents]
namespace: {create: true}
rbac: {extraRules: [{apiGroups: [example.com], resources: [things], verbs: [list, watch]}]}
networkPolicy: {enabled: true, from: [{namespaceSelector: {}}]}
metrics: {readers: [{namespace: monitoring, name: prometheus}]}
serviceMonitor: {enabled: true, labels: {release: mine}}
prometheusRule: {enabled: true}
dashboard: {enabled: true, annotations: {grafana_folder: Scheduling}}
`

// TestKnownFields checks that the types of Kubernetes have all fields of the rendered objects.
func TestKnownFields(t *testing.T) {
	t.Parallel()
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	decoded := 0
	for key, o := range render(t, everything, cluster{namespace: namespace, kinds: []string{queueKind}}) {
		// Skip the kinds of other projects, because no Go types are available here. The integration
		// tests check the objects of Reprieve's kinds.
		if group := o.text("apiVersion"); strings.HasPrefix(group, "monitoring.coreos.com/") || strings.HasPrefix(group, "reprieve.dev/") ||
			strings.HasPrefix(group, "apiextensions.k8s.io/") {
			continue
		}
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := codecs.UniversalDeserializer().Decode(raw, nil, nil); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		decoded++
	}
	if decoded < 20 {
		t.Errorf("only %d objects were looked at", decoded)
	}
}

// TestNamespace checks that a release in another namespace does not mention the namespace of
// deploy/.
func TestNamespace(t *testing.T) {
	t.Parallel()
	for key, o := range render(t, everything, cluster{namespace: "batch", kinds: []string{queueKind}}) {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		// The texts in the dashboard and the alerts are for readers, so they may mention the
		// namespace.
		if strings.Contains(string(raw), namespace) {
			t.Errorf("%s speaks of %s: %s", key, namespace, raw)
		}
	}
}

// TestCRDs checks that Helm upgrades the CRDs with the release, and keeps them when the release is
// uninstalled.
func TestCRDs(t *testing.T) {
	t.Parallel()
	if installedOnce := load(t).CRDObjects(); len(installedOnce) > 0 {
		t.Errorf("%d definitions are in crds/, which Helm never upgrades", len(installedOnce))
	}
	for name, c := range map[string]struct {
		values   string
		want     int
		wantKeep string
	}{
		"default":       {"", 4, "keep"},
		"not kept":      {"crds: {keep: false}", 4, ""},
		"not installed": {"crds: {install: false}", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := 0
			for key, o := range render(t, c.values, cluster{namespace: namespace}) {
				if o.text("kind") != "CustomResourceDefinition" {
					continue
				}
				found++
				if got := o.text("metadata", "annotations", keepAnnotation); got != c.wantKeep {
					t.Errorf("%s has the policy %q, want %q", key, got, c.wantKeep)
				}
			}
			if found != c.want {
				t.Errorf("there are %d, want %d", found, c.want)
			}
		})
	}
}

// TestValues checks that each value sets the expected field of an object.
func TestValues(t *testing.T) {
	t.Parallel()
	const deployment, config = "Deployment reprieve-system reprieve-scheduler", "ConfigMap reprieve-system reprieve-scheduler-config"
	pod := func(field ...string) []string { return append([]string{"spec", "template", "spec"}, field...) }
	for name, c := range map[string]struct {
		values, object string
		field          []string
		// want is the expected value of the field in YAML, or "" if the object or the field must
		// not exist.
		want string
	}{
		"replicas":            {"replicas: 5", deployment, []string{"spec", "replicas"}, "5"},
		"a single replica":    {"replicas: 1", "PodDisruptionBudget reprieve-system reprieve-scheduler", nil, ""},
		"no budget":           {"podDisruptionBudget: {enabled: false}", "PodDisruptionBudget reprieve-system reprieve-scheduler", nil, ""},
		"no quota":            {"resourceQuota: {enabled: false}", "ResourceQuota reprieve-system reprieve-scheduler", nil, ""},
		"quota":               {"resourceQuota: {pods: 20}", "ResourceQuota reprieve-system reprieve-scheduler", []string{"spec", "hard"}, `{pods: "20"}`},
		"quota of a class":    {"priorityClassName: mine", "ResourceQuota reprieve-system reprieve-scheduler", []string{"spec", "scopeSelector"}, "matchExpressions: [{scopeName: PriorityClass, operator: In, values: [mine]}]"},
		"no class":            {`priorityClassName: ""`, deployment, pod("priorityClassName"), ""},
		"no share":            {"flowControl: {enabled: false}", "FlowSchema  reprieve", nil, ""},
		"node selector":       {"nodeSelector: {a: b}\nonControlPlane: true", deployment, pod("nodeSelector"), `{a: b, node-role.kubernetes.io/control-plane: ""}`},
		"pull secrets":        {"image: {pullSecrets: [{name: a}]}", deployment, pod("imagePullSecrets"), "[{name: a}]"},
		"labels of Pods":      {"podLabels: {a: b, app.kubernetes.io/name: other}", deployment, []string{"spec", "template", "metadata", "labels"}, "{a: b, app.kubernetes.io/name: reprieve-scheduler, app.kubernetes.io/part-of: reprieve}"},
		"no policy":           {"", "NetworkPolicy reprieve-system reprieve-scheduler", nil, ""},
		"policy for all":      {"networkPolicy: {enabled: true}", "NetworkPolicy reprieve-system reprieve-scheduler", []string{"spec", "ingress"}, "[{ports: [{port: https, protocol: TCP}]}]"},
		"policy for some":     {"networkPolicy: {enabled: true, from: [{podSelector: {}}]}", "NetworkPolicy reprieve-system reprieve-scheduler", []string{"spec", "ingress"}, "[{ports: [{port: https, protocol: TCP}], from: [{podSelector: {}}]}]"},
		"readers":             {"metrics: {readers: [{namespace: a, name: b}]}", "ClusterRoleBinding  reprieve-metrics-reader", []string{"subjects"}, "[{kind: ServiceAccount, namespace: a, name: b}]"},
		"a queue":             {"queues: [{name: a, spec: {parent: b}}]", "Queue  a", []string{"spec"}, "{parent: b}"},
		"pod monitor":         {"podMonitor: {enabled: true, tokenSecret: {name: a}}", "PodMonitor reprieve-system reprieve-scheduler", []string{"spec", "selector"}, "matchLabels: {app.kubernetes.io/name: reprieve-scheduler}"},
		"alerts":              {"prometheusRule: {enabled: true}", "PrometheusRule reprieve-system reprieve-scheduler", []string{"spec"}, read(t, "monitoring", "alerts.yaml")},
		"labels of a monitor": {"serviceMonitor: {enabled: true, labels: {release: a}}", "ServiceMonitor reprieve-system reprieve-scheduler", []string{"metadata", "labels", "release"}, "a"},
		"dashboard":           {"dashboard: {enabled: true}", "ConfigMap reprieve-system reprieve-dashboard", []string{"metadata", "labels", "grafana_dashboard"}, `"1"`},
		"configuration":       {"configuration: {leaderElection: {leaseDuration: 30s}}", config, []string{"data", "scheduler.yaml", "leaderElection"}, "{leaderElect: true, resourceNamespace: reprieve-system, resourceName: reprieve-scheduler, leaseDuration: 30s}"},
		"arguments": {"profiles: [{schedulerName: a, args: {workloadAware: false}, pluginConfig: [{name: B, args: {c: d}}]}]", config, []string{"data", "scheduler.yaml", "profiles"}, `
- schedulerName: a
  plugins:
    multiPoint: {enabled: [{name: Reprieve}], disabled: [{name: DefaultPreemption}]}
    queueSort: {enabled: [{name: ReprievePrioritySort}], disabled: [{name: PrioritySort}]}
    preFilter: {enabled: [{name: Reprieve}]}
  pluginConfig: [{name: Reprieve, args: {workloadAware: false}}, {name: B, args: {c: d}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, ok := render(t, c.values, cluster{namespace: namespace, kinds: []string{queueKind}})[c.object]
			if ok && c.object == config {
				o = alike(t, objects{"": o})[config]
			}
			if !ok && c.want != "" {
				t.Fatalf("there is no %s", c.object)
			}
			if ok && c.want == "" && c.field == nil {
				t.Fatalf("there is a %s", c.object)
			}
			var want any
			if err := yaml.UnmarshalStrict([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if got := o.at(c.field...); c.field != nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%s is %v, want %v", strings.Join(c.field, "."), got, want)
			}
		})
	}
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(append([]string{chartDir}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestRollsOnChange checks that a change of the configuration changes the checksum in the template
// of the Pods. A change of the replicas must not change it.
func TestRollsOnChange(t *testing.T) {
	t.Parallel()
	checksum := func(values string) string {
		o := render(t, values, cluster{namespace: namespace})["Deployment reprieve-system reprieve-scheduler"]
		return o.text("spec", "template", "metadata", "annotations", checksumAnnotation)
	}
	before := checksum("")
	if before == "" || checksum("replicas: 3") != before {
		t.Errorf("the checksum is %q, and changes with the replicas", before)
	}
	if checksum("configuration: {parallelism: 8}") == before {
		t.Error("a change of the configuration does not roll the Pods")
	}
}

// TestBadValues checks that invalid values are rejected, and that the message names the value.
func TestBadValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, want string }{
		"an unknown value":             {"replica: 3", "replica"},
		"an unknown value below":       {"image: {name: a}", "name"},
		"a number that is none":        {"replicas: many", "replicas"},
		"no profile":                   {"profiles: []", "profiles"},
		"a profile without a name":     {"profiles: [{args: {}}]", "schedulerName"},
		"the plugin's arguments twice": {"profiles: [{schedulerName: a, pluginConfig: [{name: Reprieve, args: {}}]}]", "pluginConfig"},
		"an argument with a slip":      {"profiles: [{schedulerName: a, args: {preemptMinRunTime: 5m}}]", "preemptMinRunTime"},
		"a negative time":              {"profiles: [{schedulerName: a, args: {preemptMinRuntime: -5m}}]", "preemptMinRuntime"},
		"a time without a unit":        {`profiles: [{schedulerName: a, args: {gang: {settleTime: "5"}}}]`, "settleTime"},
		"a kind without a rule":        {"profiles: [{schedulerName: a, args: {groups: {kinds: [Jobs]}}}]", "kinds"},
		"one kind, not a list":         {"profiles: [{schedulerName: a, args: {groups: {kinds: Job}}}]", "kinds"},
		"a label that is no text":      {"profiles: [{schedulerName: a, args: {queueLabelKey: 5}}]", "queueLabelKey"},
		"a point that is ours":         {"profiles: [{schedulerName: a, plugins: {queueSort: {}}}]", "the chart sets plugins.queueSort"},
		"profiles in configuration":    {"configuration: {profiles: []}", "configuration.profiles: the chart sets it"},
		"another lease":                {"configuration: {leaderElection: {resourceName: a}}", "configuration.leaderElection.resourceName: the chart sets it"},
		"an argument that is ours":     {`extraArgs: ["--config=/tmp/a"]`, "extraArgs: --config: the chart sets it"},
		"no leader election":           {`extraArgs: ["--leader-elect=false"]`, "extraArgs: --leader-elect: the chart configures leader election"},
		"a lease of an argument":       {`extraArgs: ["--leader-elect-resource-name=a"]`, "extraArgs: --leader-elect-resource-name: the chart configures"},
		"profiling that says nothing":  {`extraArgs: ["--profiling=false"]`, "extraArgs: --profiling: it has no effect beside --config"},
		"a rate that says nothing":     {`extraArgs: ["--kube-api-qps=5"]`, "extraArgs: --kube-api-qps: it has no effect beside --config"},
		"no argument":                  {`extraArgs: [a]`, "extraArgs"},
		"queues before their kind":     {"queues: [{name: a}]", "install without queues, then upgrade"},
		"two monitors":                 {"serviceMonitor: {enabled: true}\npodMonitor: {enabled: true, tokenSecret: {name: a}}", "enable one of the two"},
		"a monitor without a token":    {"podMonitor: {enabled: true}", "podMonitor.tokenSecret.name"},
		"a reader without a namespace": {"metrics: {readers: [{name: a}]}", "namespace"},
		"a digest that is none":        {"image: {digest: abc}", "digest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tryRender(t, c.values, cluster{namespace: namespace})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// TestSchema checks that values.schema.json and values.yaml have the same values.
func TestSchema(t *testing.T) {
	t.Parallel()
	var schema, values map[string]any
	if err := json.Unmarshal([]byte(read(t, "values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(read(t, "values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	// Helm defines the value "global" for charts with subcharts.
	delete(schema["properties"].(map[string]any), "global")
	compareSchema(t, "", schema, values)
}

func compareSchema(t *testing.T, at string, schema, values map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil || schema["additionalProperties"] != false {
		return
	}
	for name, value := range values {
		below, known := properties[name].(map[string]any)
		if !known {
			t.Errorf("the schema does not know %s%s", at, name)
			continue
		}
		if mapping, ok := value.(map[string]any); ok && len(mapping) > 0 {
			compareSchema(t, at+name+".", below, mapping)
		}
	}
	// The schema allows any resource names, because Kubernetes validates them.
	for name := range properties {
		if _, ok := values[name]; !ok && at != "resources." {
			t.Errorf("values.yaml does not have %s%s", at, name)
		}
	}
}

// TestLint checks that helm lint reports no problems.
func TestLint(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{"default": "", "everything": strings.Replace(everything, "queues:", "#", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var given map[string]any
			if err := yaml.Unmarshal([]byte(values), &given); err != nil {
				t.Fatal(err)
			}
			result := lint.All(chartDir, given, namespace, true)
			for _, m := range result.Messages {
				// Ignore the recommendation to add an icon.
				if m.Severity > support.InfoSev {
					t.Error(m)
				}
			}
		})
	}
}

// TestEmptyTag checks that an empty tag selects the image with the version of the chart.
func TestEmptyTag(t *testing.T) {
	t.Parallel()
	out := rendered(t, `image: {repository: mine, tag: ""}`, "deployment.yaml")
	if want := `image: "mine:` + load(t).Metadata.AppVersion + `"`; !strings.Contains(out, want) {
		t.Errorf("the Deployment has no %s", want)
	}
}

// TestNotesOfKinds checks that the notes name exactly the profiles without args.groups.kinds. These
// profiles schedule the pods of a Job one by one.
func TestNotesOfKinds(t *testing.T) {
	t.Parallel()
	const says = "The profile b has no args.groups.kinds"
	notes := rendered(t, "profiles: [{schedulerName: a, args: {groups: {kinds: [Job]}}}, {schedulerName: b}]", "NOTES.txt")
	if !strings.Contains(notes, says) || strings.Contains(notes, "The profile a has") {
		t.Errorf("the notes are %q", notes)
	}
}

// rendered returns the output of one template.
func rendered(t *testing.T, values, template string) string {
	t.Helper()
	files, err := tryRender(t, values, cluster{namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return files["reprieve/templates/"+template]
}
