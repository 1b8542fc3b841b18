package kubectl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/cmd/kubectl-reprieve/app"
	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// patience is the timeout of each wait. It is generous for busy machines.
const patience = 2 * time.Minute

const namespace = metav1.NamespaceDefault

// reader is the user who runs the plugin.
const reader = "system:serviceaccount:" + namespace + ":reader"

// auditPolicy makes the API server record every request of the reader, and no other requests.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + reader + `"]
- level: None
`

// train is a PodGroup with two members. Each member needs all GPUs of a node.
const train = `apiVersion: reprieve.dev/v1alpha1
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: high}
---
apiVersion: v1
kind: Pod
metadata: {name: train-0, labels: {reprieve.dev/pod-group: train}}
spec: {schedulerName: reprieve-scheduler, priorityClassName: high, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: train-1, labels: {reprieve.dev/pod-group: train}}
spec: {schedulerName: reprieve-scheduler, priorityClassName: high, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}
`

// stand is a playground for the tests of the plugin.
type stand struct {
	*testing.T
	playground *playground.Playground
	kube       kubernetes.Interface
	objects    dynamic.Interface
	kubeconfig string
}

func newStand(t *testing.T) *stand {
	t.Helper()
	return newStandWith(t, playground.SchedulerOptions{})
}

// newStandWith returns a stand with three nodes of 4 GPUs, and six running pods of low priority
// with 2 GPUs each. The scheduler has the given options.
func newStandWith(t *testing.T, scheduler playground.SchedulerOptions) *stand {
	t.Helper()
	s := emptyStand(t, 3, scheduler)
	for name, value := range map[string]int32{"low": 10, "high": 1000} {
		s.must(s.kube.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{}))
	}
	for i := range 6 {
		pod := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: low-%d}\nspec: {schedulerName: reprieve-scheduler, priorityClassName: low, terminationGracePeriodSeconds: 1, "+
			"containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]}\n", i)
		s.create(pod)
	}
	s.eventually("the pods of low priority run", func() bool { return len(s.onNodes("low-")) == 6 })
	return s
}

// emptyStand returns a stand with nodes of 4 GPUs, and a reader without permissions.
func emptyStand(t *testing.T, nodes int, scheduler playground.SchedulerOptions) *stand {
	t.Helper()
	return standOn(t, scheduler, playground.NodeGroup{Count: nodes})
}

// standOn returns a stand with the groups of nodes, and a reader without permissions. Each node has
// 4 GPUs.
func standOn(t *testing.T, scheduler playground.SchedulerOptions, groups ...playground.NodeGroup) *stand {
	t.Helper()
	for i := range groups {
		groups[i].Resources = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi"), "nvidia.com/gpu": resource.MustParse("4"),
		}
	}
	p := playgroundtest.Start(t, playground.Options{CRDs: crds.FS, AuditPolicy: auditPolicy, Scheduler: scheduler, NodeGroups: groups})
	s := &stand{T: t, playground: p, kube: kubernetes.NewForConfigOrDie(p.RESTConfig()), objects: dynamic.NewForConfigOrDie(p.RESTConfig())}
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	s.must(s.kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}))
	token, err := s.kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WriteKubeconfig(s.kubeconfig, token.Status.Token); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) must(_ any, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// create creates the objects in a YAML text.
func (s *stand) create(text string) {
	s.Helper()
	type kind struct {
		schema.GroupVersionResource
		namespaced bool
	}
	kinds := map[string]kind{
		"Pod": {corev1.SchemeGroupVersion.WithResource("pods"), true}, "Job": {batchv1.SchemeGroupVersion.WithResource("jobs"), true},
		"PodGroup": {v1alpha1.SchemeGroupVersion.WithResource("podgroups"), true}, "Queue": {v1alpha1.SchemeGroupVersion.WithResource("queues"), false},
		"PriorityClass": {schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), false},
	}
	for part := range strings.SplitSeq(text, "---\n") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(part), &object.Object); err != nil {
			s.Fatal(err)
		}
		kind := kinds[object.GetKind()]
		var at dynamic.ResourceInterface = s.objects.Resource(kind.GroupVersionResource)
		if kind.namespaced {
			at = s.objects.Resource(kind.GroupVersionResource).Namespace(namespace)
		}
		s.must(at.Create(s.Context(), &object, metav1.CreateOptions{}))
	}
}

// onNodes returns the pods whose names begin with a prefix. It maps the name of a pod to the name
// of its node.
func (s *stand) onNodes(prefix string) map[string]string {
	s.Helper()
	pods, err := s.kube.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	out := make(map[string]string)
	for i := range pods.Items {
		if pod := &pods.Items[i]; strings.HasPrefix(pod.Name, prefix) && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			out[pod.Name] = pod.Spec.NodeName
		}
	}
	return out
}

func (s *stand) eventually(what string, condition func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		s.Fatalf("%s: not within %v", what, patience)
	}
}

// ask runs the plugin as the reader. It returns the exit code and the output.
func (s *stand) ask(input string, args ...string) (code int, out, errOut string) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	code = app.Run(s.Context(), genericiooptions.IOStreams{In: strings.NewReader(input), Out: &stdout, ErrOut: &stderr},
		append(args, "--kubeconfig", s.kubeconfig), func(string) (string, bool) { return "", false })
	return code, stdout.String(), stderr.String()
}

// allow grants the reader the ClusterRole for the plugin in deploy/.
func (s *stand) allow() {
	s.Helper()
	s.bind("reprieve-planner")
	s.eventually("the reader may list", func() bool {
		code, _, _ := s.ask("", "snapshot")
		return code == 0
	})
}

// bind grants the reader a ClusterRole in deploy/.
func (s *stand) bind(name string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(s), "deploy", "clusterroles-users.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(part), &role); err != nil {
			s.Fatal(err)
		}
		if role.Name == name {
			s.must(s.kube.RbacV1().ClusterRoles().Create(s.Context(), &role, metav1.CreateOptions{}))
		}
	}
	s.must(s.kube.RbacV1().ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "reader"}},
	}, metav1.CreateOptions{}))
}

// reviews is the key in the result of verbs for requests that check the reader's own permissions.
// These requests change nothing.
const reviews = "review"

// verbs returns the number of the reader's requests for each verb. It reads the audit log.
func (s *stand) verbs() map[string]int {
	s.Helper()
	file, err := os.Open(s.playground.AuditLog())
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	out := make(map[string]int)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			Verb      string `json:"verb"`
			ObjectRef struct {
				Resource string `json:"resource"`
			} `json:"objectRef"`
			User struct {
				Username string `json:"username"`
			} `json:"user"`
		}
		if json.Unmarshal(lines.Bytes(), &entry) != nil || entry.User.Username != reader {
			continue
		}
		if entry.ObjectRef.Resource == "selfsubjectaccessreviews" {
			entry.Verb = reviews
		}
		out[entry.Verb]++
	}
	return out
}

// planned has the fields of the command plan's JSON output that the tests check.
type planned struct {
	Results []struct {
		Placed int           `json:"placed"`
		Steps  []plannedStep `json:"steps"`
	} `json:"results"`
}

type plannedStep struct {
	Outcome    string `json:"outcome"`
	Placements []struct{ Pod, Node string }
	Victims    []struct{ Pods []struct{ Name string } }
}

// TestPlanOfALiveCluster tests the command plan. Without permissions, it must name the missing
// permissions. With its ClusterRole, it must return a plan, and the scheduler must act accordingly.
// The plugin must never change an object.
func TestPlanOfALiveCluster(t *testing.T) {
	s := newStand(t)
	if code, _, errOut := s.ask(train, "plan", "-f", "-"); code != 4 || !strings.Contains(errOut, "you may not list") || !strings.Contains(errOut, "queues.reprieve.dev") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("without rights: exit code %d, %q", code, errOut)
	}
	s.allow()
	code, out, errOut := s.ask(train, "plan", "-f", "-", "-o", "json")
	if code != 0 {
		t.Fatalf("plan: exit code %d, %s", code, errOut)
	}
	var answer planned
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	step := answer.Results[0].Steps[0]
	if step.Outcome != "Preempts" || len(step.Placements) != 2 || len(step.Victims) == 0 {
		t.Fatalf("It plans %+v", step)
	}
	s.sameBySnapshot(train, out)
	for _, args := range [][]string{{"queues"}, {"protected", "-A"}, {"history", "-A"}, {"why", "low-0"}} {
		if code, out, errOut := s.ask("", args...); code != 0 || out == "" {
			t.Errorf("%v: exit code %d, %q, %s", args, code, out, errOut)
		}
	}
	if code, _, errOut := s.ask("", "why", "nothing"); code != 3 || !strings.Contains(errOut, "pod default/nothing does not exist") {
		t.Errorf("why of what there is not: exit code %d, %q", code, errOut)
	}
	s.create(train)
	s.tellsOfThePast(s.actsAs(&step)[0], "podgroup/train", "podgroup default/train")
	for verb, n := range s.verbs() {
		if !slices.Contains([]string{"list", "get", reviews}, verb) {
			t.Errorf("The command makes %d requests %q", n, verb)
		}
	}
	if s.verbs()["list"] == 0 {
		t.Error("No list of the command is recorded")
	}
}

// actsAs waits until both pods of the gang are placed. It checks that their nodes and the victims
// are as planned, and returns the names of the victims.
func (s *stand) actsAs(step *plannedStep) []string {
	s.Helper()
	s.eventually("the gang is placed", func() bool { return len(s.onNodes("train-")) == 2 })
	// Compare only the set of nodes, because equal members may exchange their nodes.
	var places []string
	for _, place := range step.Placements {
		places = append(places, place.Node)
	}
	slices.Sort(places)
	if got := slices.Sorted(maps.Values(s.onNodes("train-"))); !slices.Equal(got, places) {
		s.Errorf("The scheduler puts the members on %v; planned were %v", got, places)
	}
	var victims []string
	for _, v := range step.Victims {
		for _, pod := range v.Pods {
			victims = append(victims, pod.Name)
		}
	}
	left := s.onNodes("low-")
	for i := range 6 {
		name := fmt.Sprintf("low-%d", i)
		if _, stays := left[name]; stays == slices.Contains(victims, name) {
			s.Errorf("%s stays: %t; planned were the victims %v", name, stays, victims)
		}
	}
	return victims
}

// sameBySnapshot takes a snapshot of the cluster, and checks that plan returns the same result for
// the snapshot as for the cluster.
func (s *stand) sameBySnapshot(manifest, live string) {
	s.Helper()
	code, snapshot, errOut := s.ask("", "snapshot", "--redact")
	if code != 0 {
		s.Fatalf("snapshot: exit code %d, %s", code, errOut)
	}
	file := filepath.Join(s.TempDir(), "snapshot.json")
	if err := os.WriteFile(file, []byte(snapshot), 0o600); err != nil {
		s.Fatal(err)
	}
	_, out, _ := s.ask(manifest, "plan", "-f", "-", "-o", "json", "--snapshot", file)
	var first, second planned
	if err := json.Unmarshal([]byte(live), &first); err != nil {
		s.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &second); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	if fmt.Sprint(first) != fmt.Sprint(second) {
		s.Errorf("By the snapshot, it plans %+v; by the cluster %+v", second, first)
	}
}

// tellsOfThePast checks that the plugin explains a preemption that has happened: for the victim,
// and for the preemptor.
func (s *stand) tellsOfThePast(victim, subject, preemptor string) {
	s.Helper()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"why", subject}, "Took: pod default/" + victim},
		{[]string{"why", victim}, "by " + preemptor},
		{[]string{"history"}, preemptor},
	} {
		s.eventually(fmt.Sprintf("%v says %q", c.args, c.want), func() bool {
			code, out, _ := s.ask("", c.args...)
			return code == 0 && strings.Contains(out, c.want)
		})
	}
}
