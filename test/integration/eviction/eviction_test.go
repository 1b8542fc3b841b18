// Package eviction tests evictions on a real API server. An eviction must not delete a new pod that
// has the name of a victim. If the API server rejects the deletion of one victim, the eviction must
// not delete the other victims if their room alone is useless.
package eviction

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
)

func startAPIServer(t *testing.T) *rest.Config {
	t.Helper()
	bin := playgroundtest.BinDir(t, playground.APIServer, playground.Etcd)
	environment := &envtest.Environment{
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: time.Minute},
		CRDDirectoryPaths:        []string{filepath.Join(playgroundtest.ModuleRoot(t), "deploy", "crds")},
		ErrorIfCRDPathMissing:    true,
		UseExistingCluster:       ptr.To(false),
	}
	environment.ControlPlane.GetAPIServer().Path = filepath.Join(bin, playground.APIServer)
	// Without this setting, the API server rejects pods, because no controller creates the service
	// account.
	environment.ControlPlane.GetAPIServer().Configure().Append("disable-admission-plugins", "ServiceAccount")
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(bin, playground.Etcd)}
	config, err := environment.Start()
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("Stop the API server: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("Start the API server: %v", err)
	}
	return config
}

func create(t *testing.T, kube kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	pod, err := kube.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName:                      "node",
			TerminationGracePeriodSeconds: ptr.To[int64](30),
			Containers:                    []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// bound is a scheduler whose pods are all bound. It never cancels an order.
type bound struct{}

func (bound) TurnBack(*corev1.Pod) bool                           { return false }
func (bound) Wants(*eviction.Order) bool                          { return true }
func (bound) RunsAnew(*eviction.Order, types.NamespacedName) bool { return false }
func (bound) KeepsMinCount(types.NamespacedName) bool             { return true }
func (bound) IsUnbound(*corev1.Pod) bool                          { return false }
func (bound) HasMoved(*corev1.Pod) bool                           { return false }
func (bound) HasEnded(*corev1.Pod) bool                           { return false }

func evict(t *testing.T, e *eviction.Executor, pod *corev1.Pod) {
	t.Helper()
	order := eviction.Order{
		Decision: core.Decision{
			Preemptor: core.Preemptor{Namespace: "default", Name: "urgent", Priority: 9},
			Victims: []core.Victim{{
				Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Rule: core.RuleLowerPriority,
				Pods: []core.VictimPod{{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}},
			}},
		},
		Victims: map[types.UID]*corev1.Pod{pod.UID: pod},
	}
	outcomes := e.Evict(t.Context(), order, bound{})
	e.Wait()
	if err := (<-outcomes).Err; err != nil {
		t.Fatalf("evict: %v", err)
	}
}

// clientsOf returns two clients of an API server: one for pods, and one for PodGroups.
func clientsOf(t *testing.T, config *rest.Config) (kubernetes.Interface, client.Client) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	groups, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return kube, groups
}

func newExecutor(t *testing.T, kube kubernetes.Interface, groups client.Client) *eviction.Executor {
	t.Helper()
	statuses := podstatus.New(t.Context(), kube, kube, flowcontrol.NewFakeAlwaysRateLimiter(), clock.RealClock{})
	return eviction.New(t.Context(), kube, groups, statuses, events.NewFakeRecorder(100), clock.RealClock{})
}

func TestEviction(t *testing.T) {
	kube, groups := clientsOf(t, startAPIServer(t))
	executor := newExecutor(t, kube, groups)
	pods := kube.CoreV1().Pods("default")
	kill := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}

	t.Run("a victim is told why, and has its grace period", func(t *testing.T) {
		evict(t, executor, create(t, kube, "victim"))
		got, err := pods.Get(t.Context(), "victim", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.DeletionTimestamp == nil || ptr.Deref(got.DeletionGracePeriodSeconds, 0) != 30 {
			t.Errorf("It is deleted at %v, with %v seconds", got.DeletionTimestamp, got.DeletionGracePeriodSeconds)
		}
		for _, c := range got.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
				return
			}
		}
		t.Errorf("Its conditions are %+v", got.Status.Conditions)
	})
	t.Run("a pod of the same name is not touched", func(t *testing.T) {
		before := create(t, kube, "again")
		if err := pods.Delete(t.Context(), "again", kill); err != nil {
			t.Fatal(err)
		}
		after := create(t, kube, "again")
		evict(t, executor, before)
		got, err := pods.Get(t.Context(), "again", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.UID != after.UID || got.ResourceVersion != after.ResourceVersion {
			t.Errorf("It has changed: %+v", got)
		}
	})
	t.Run("a victim that has gone is no failure", func(t *testing.T) {
		gone := create(t, kube, "gone")
		if err := pods.Delete(context.WithoutCancel(t.Context()), "gone", kill); err != nil {
			t.Fatal(err)
		}
		evict(t, executor, gone)
		if _, err := pods.Get(t.Context(), "gone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("It is back: %v", err)
		}
	})
}
