package tenants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	// These are settings of the scheduler. maxGracePeriod is the longest grace period of a pod that
	// it waits for. After this time, or after a shorter grace period, it waits for
	// terminationTimeout. Then the pod is overdue.
	maxGracePeriod, terminationTimeout = 15 * time.Second, 10 * time.Second
	// deletedTimeout is a setting of the scheduler: work of a deleted queue is protected for this
	// time.
	deletedTimeout = 40 * time.Second
	// years is a grace period in seconds. It is much longer than any test.
	years = 1_000_000_000
)

// priorityClasses has the priority classes of all tests.
var priorityClasses = map[string]int32{"low": 100, "mid": 500, "high": 1000}

// shared is the playground that most tests share.
var shared = stage.Shared{Parallel: 4, Begin: begin, End: (*stage.Stage).Unauthorized}

func TestMain(m *testing.M) { os.Exit(shared.RunTests(m)) }

func begin(ctx context.Context, s *stage.Stage, dir string) error {
	s.CreateClasses(priorityClasses)
	options, err := install(ctx, s, dir)
	if err != nil {
		return err
	}
	_, err = s.Run.StartScheduler(ctx, playground.Scheduler, options)
	return err
}

// install installs deploy/. It returns the options of a scheduler with the rights and the
// configuration of the installation, and with shorter times. dir is a directory for files.
func install(ctx context.Context, s *stage.Stage, dir string) (playground.SchedulerOptions, error) {
	options, err := s.Install(ctx, dir, map[string]any{
		"terminationTimeout": terminationTimeout.String(),
		"maxGracePeriod":     maxGracePeriod.String(),
		"queues":             map[string]any{"deletedTimeout": deletedTimeout.String()},
	})
	if err != nil {
		return options, err
	}
	return options, exemptUnguarded(ctx, s)
}

// unguarded is a label of namespaces in which no admission policy of deploy/ applies. Tests use
// such namespaces for the rules that the scheduler applies by itself.
const unguarded = "test.reprieve.dev/unguarded"

// exemptUnguarded changes the bindings of the admission policies, so that they do not apply to
// namespaces with the label unguarded.
func exemptUnguarded(ctx context.Context, s *stage.Stage) error {
	bindings := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	list, err := bindings.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return errors.New("deploy/ has installed no admission policies")
	}
	for i := range list.Items {
		binding := &list.Items[i]
		if binding.Spec.MatchResources != nil {
			return fmt.Errorf("binding %s selects its resources itself", binding.Name)
		}
		binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: unguarded, Operator: metav1.LabelSelectorOpDoesNotExist}},
		}}
		if _, err := bindings.Update(ctx, binding, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// env is the environment of one test: its namespace and its nodes.
type env struct {
	*stage.Stage
	// tenant and edit are clients of a user with the role edit in the namespace.
	tenant kubernetes.Interface
	edit   client.Client
}

// newEnv returns an environment with the admission policies of deploy/.
func newEnv(t *testing.T) *env {
	t.Helper()
	return envOf(t, shared.In(t))
}

// newUnguarded returns an environment without admission policies, as after an installation that
// leaves them out.
func newUnguarded(t *testing.T) *env {
	t.Helper()
	s := shared.In(t)
	unguard(s)
	return envOf(t, s)
}

// unguard ends the admission policies in the namespace of a test.
func unguard(s *stage.Stage) {
	s.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, unguarded))
	if err := s.Objects.Patch(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, patch); err != nil {
		s.Fatal(err)
	}
	s.Eventually("no policy applies to the namespace", func(ctx context.Context) string {
		if err := s.Objects.Create(ctx, systemGroup(s), client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	})
}

// systemGroup returns a PodGroup with a PriorityClass of the system. A policy refuses it.
func systemGroup(s *stage.Stage) client.Object {
	return s.NewGroup(stage.Group{Name: "probe", MinCount: 1, Priority: "system-node-critical"})
}

func envOf(t *testing.T, s *stage.Stage) *env {
	t.Helper()
	config := kubeconfigOf(s)
	e := &env{Stage: s}
	var err error
	if e.tenant, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if e.edit, err = client.New(config, client.Options{Scheme: s.Objects.Scheme()}); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the tenant may create PodGroups", func(ctx context.Context) string {
		pg := e.NewGroup(stage.Group{Name: "first", MinCount: 1})
		if err := e.edit.Create(ctx, pg, client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	})
	return e
}

// kubeconfigOf writes a kubeconfig of a ServiceAccount with the role edit in the test's namespace,
// and returns the configuration of a client for it, without a limit on calls.
func kubeconfigOf(s *stage.Stage) *rest.Config {
	s.Helper()
	const name = "tenant"
	s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	})
	token, err := s.Kube.CoreV1().ServiceAccounts(s.Namespace).CreateToken(s.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	path := filepath.Join(s.TempDir(), "tenant.kubeconfig")
	if err := s.Run.WriteKubeconfig(path, token.Status.Token); err != nil {
		s.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		s.Fatal(err)
	}
	config.QPS = -1
	return config
}

// running creates a pod with 4 CPUs on a node, and waits until it runs. grace is its grace period
// in seconds.
func (e *env) running(name, priority, node string, grace int64, change ...func(*corev1.Pod)) {
	e.Helper()
	pod := newPodOn(e, name, priority, node)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(grace)
	for _, c := range change {
		c(pod)
	}
	e.Create(pod)
	e.Runs(name, 1)
}

// queue creates a Queue that is deleted after the test. It returns the name of the Queue.
func (e *env) queue(short string, spec v1alpha1.QueueSpec) string {
	e.Helper()
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: short + "-" + e.Namespace}, Spec: spec}
	e.Create(q)
	e.Cleanup(func() { e.deleteQueue(q.Name, true) })
	return q.Name
}

// deleteQueue deletes a Queue, if it exists. If confirm is true, it first sets the annotation that
// confirms the deletion.
func (e *env) deleteQueue(name string, confirm bool) {
	e.Helper()
	// Cleanup functions call this after the test's context has ended.
	ctx := context.WithoutCancel(e.Context())
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	var err error
	if confirm {
		err = e.Objects.Patch(ctx, q, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"reprieve.dev/confirm-deletion":"true"}}}`)))
	}
	if err == nil {
		err = e.Objects.Delete(ctx, q)
	}
	if client.IgnoreNotFound(err) != nil {
		e.Errorf("delete Queue %s: %v", name, err)
	}
}

// urgent creates a preemptor with 4 CPUs: a single pod, or a gang with one member.
func (e *env) urgent(isGang bool, change ...func(*corev1.Pod)) {
	e.Helper()
	pod := stage.NewPod(e.Namespace, "urgent", "high", 4)
	for _, c := range change {
		c(pod)
	}
	if isGang {
		e.CreateGroup(stage.Group{Name: "urgent", MinCount: 1, Priority: "high"})
		e.Groups.Join(pod, "urgent")
	}
	e.Create(pod)
}

// terminating waits until exactly the named pods are terminating.
func (e *env) terminating(want ...string) {
	e.Helper()
	e.Eventually(fmt.Sprintf("%v terminate", want), func(ctx context.Context) string {
		if got := e.Terminating(ctx); !slices.Equal(got, want) {
			return fmt.Sprintf("%v terminate", got)
		}
		return ""
	})
}

// pod creates a pod with 4 CPUs that may run on one node only. The tenant creates it.
func (e *env) pod(name, priority, node string, change ...func(*corev1.Pod)) {
	e.Helper()
	pod := newPodOn(e, name, priority, node)
	for _, c := range change {
		c(pod)
	}
	e.do(e.edit.Create(e.Context(), pod))
}

// newPodOn returns a pod with 4 CPUs that may run on one node only.
func newPodOn(e *env, name, priority, node string) *corev1.Pod {
	pod := stage.NewPod(e.Namespace, name, priority, 4)
	pod.Spec.NodeSelector[corev1.LabelHostname] = e.NodeName(node)
	return pod
}

// do ends the test if an action has failed.
func (e *env) do(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// cpus returns an amount of CPUs.
func cpus(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
}

// inQueue returns a function that names the queue of a pod by its label.
func inQueue(queue string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelQueue] = queue }
}

// inGroup returns a function that makes a pod a member of a PodGroup.
func inGroup(group string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelPodGroup] = group }
}

// asking returns a function that sets the CPUs that a pod requests.
func asking(n int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = cpus(n) }
}

// group returns a PodGroup in a queue, as the tenant creates it. Its disruption mode is PodGroup.
// If queue is empty, the PodGroup names no queue.
func (e *env) group(name, class, queue string, minCount int32) *v1alpha1.PodGroup {
	pg := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	pg.Spec.PriorityClassName, pg.Spec.DisruptionMode = &class, ptr.To(v1alpha1.DisruptionModePodGroup)
	pg.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: minCount}}
	if queue != "" {
		pg.Spec.QueueName = &queue
	}
	return pg
}
