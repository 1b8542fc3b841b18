package tenants

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
var shared = stage.Shared{Parallel: 4, Begin: begin}

func TestMain(m *testing.M) { os.Exit(shared.RunTests(m)) }

func begin(ctx context.Context, s *stage.Stage, dir string) error {
	s.CreateClasses(priorityClasses)
	s.Create(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reprieve-edit", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.SchemeGroupVersion.Group}, Resources: []string{"podgroups", "workloads"},
			Verbs: []string{"get", "list", "watch", "create", "delete", "deletecollection", "patch", "update"},
		}},
	})
	config, err := stage.Config{Profiles: []string{stage.ProfileConfig(stage.Profile,
		fmt.Sprintf("{name: Reprieve, args: {terminationTimeout: %v, maxGracePeriod: %v, queues: {deletedTimeout: %v}}}",
			terminationTimeout, maxGracePeriod, deletedTimeout))}}.Write(dir)
	if err != nil {
		return err
	}
	_, err = s.Run.StartScheduler(ctx, playground.Scheduler, playground.SchedulerOptions{Config: config, Args: stage.SchedulerArgs()})
	return err
}

// env is the environment of one test: its namespace and its nodes.
type env struct {
	*stage.Stage
	// tenant and edit are clients of a user with the role edit in the namespace.
	tenant kubernetes.Interface
	edit   client.Client
}

func newEnv(t *testing.T) *env {
	t.Helper()
	s := shared.In(t)
	e := &env{Stage: s, tenant: tenantOf(s)}
	var err error
	if e.edit, err = client.New(configOf(s), client.Options{Scheme: s.Objects.Scheme()}); err != nil {
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

// userOf returns the name of the user with the role edit in the namespace of a test.
func userOf(s *stage.Stage) string { return "tenant-of-" + s.Namespace }

// configOf returns the configuration of a client for the user that userOf names, without a limit on
// calls.
func configOf(s *stage.Stage) *rest.Config {
	config := rest.CopyConfig(s.Run.RESTConfig())
	config.QPS, config.Impersonate = -1, rest.ImpersonationConfig{UserName: userOf(s)}
	return config
}

// tenantOf returns a client for a user with the role edit in the test's namespace.
func tenantOf(s *stage.Stage) kubernetes.Interface {
	s.Helper()
	s.Create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "tenant"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: userOf(s)}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	})
	tenant, err := kubernetes.NewForConfig(configOf(s))
	if err != nil {
		s.Fatal(err)
	}
	return tenant
}

// running creates a pod with 4 CPUs on a node, and waits until it runs. grace is its grace period
// in seconds.
func (e *env) running(name, priority, node string, grace int64, change ...func(*corev1.Pod)) {
	e.Helper()
	pod := stage.NewPod(e.Namespace, name, priority, 4)
	pod.Spec.NodeSelector[corev1.LabelHostname] = e.NodeName(node)
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
