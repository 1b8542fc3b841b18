package playground_test

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

const widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Cluster
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
`

const widget = `
apiVersion: example.com/v1
kind: Widget
metadata:
  name: first
---
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [crd.yaml]
`

// TestCluster checks the behavior of a cluster. The subtests share one cluster, because a start
// takes seconds.
func TestCluster(t *testing.T) {
	t.Parallel()
	p := playgroundtest.Start(t, playground.Options{
		NodeGroups: []playground.NodeGroup{nodeGroup(t, 3)},
		CRDs: fstest.MapFS{
			// By path, this object comes before the CRD that defines its kind.
			"a/widget.yaml": {Data: []byte(widget)},
			"b/crd.yaml":    {Data: []byte(widgetCRD)},
			"README.md":     {Data: []byte("not a manifest")},
		},
		Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler},
	})
	client := newClient(t, p)
	// The subtests run in parallel. The playground stops after the last of them.
	for name, test := range map[string]func(*testing.T, kubernetes.Interface){
		"nodes are ready":                     testNodes,
		"manifests are applied":               testManifests,
		"a bound pod runs":                    testBoundPodRuns,
		"a deleted pod has its grace period":  testGracePeriod,
		"a grace period can be cut short":     testGracePeriodCutShort,
		"no grace period means at once":       testNoGracePeriod,
		"a finalizer holds":                   testFinalizer,
		"a pod can be told to succeed":        testRunFor,
		"a bad run-for annotation is ignored": testBadRunFor,
		"a job replaces a deleted pod":        testJob,
		"a deployment has its pods":           testDeployment,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, client)
		})
	}
}

func testNodes(t *testing.T, client kubernetes.Interface) {
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	zones := map[string]string{"node-0": "zone-a", "node-1": "zone-b", "node-2": "zone-c"}
	if len(nodes.Items) != len(zones) {
		t.Errorf("%d nodes, want %d", len(nodes.Items), len(zones))
	}
	for _, node := range nodes.Items {
		if got, want := node.Labels[corev1.LabelTopologyZone], zones[node.Name]; got != want {
			t.Errorf("%s is in zone %q, want %q", node.Name, got, want)
		}
		if len(node.Spec.Taints) != 0 {
			t.Errorf("%s has taints %v", node.Name, node.Spec.Taints)
		}
		if got := node.Status.Allocatable["nvidia.com/gpu"]; got.Value() != 4 {
			t.Errorf("%s has %s GPUs allocatable, want 4", node.Name, got.String())
		}
		if got := node.Status.Allocatable.Pods(); got.Value() != 110 {
			t.Errorf("%s has room for %s pods, want 110", node.Name, got.String())
		}
	}
}

func testManifests(t *testing.T, client kubernetes.Interface) {
	err := client.Discovery().RESTClient().Get().AbsPath("/apis/example.com/v1/widgets/first").Do(t.Context()).Error()
	if err != nil {
		t.Error(err)
	}
}

func testBoundPodRuns(t *testing.T, client kubernetes.Interface) {
	createBound(t, client, newPod("bound", func(pod *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "setup", Image: "example.com/setup:1"},
			{Name: "sidecar", Image: "example.com/sidecar:1", RestartPolicy: &always},
		}
	}), "node-1")
	pod := waitPhase(t, client, "bound", corev1.PodRunning)
	if pod.Status.StartTime == nil || pod.Status.PodIP == "" || pod.Status.HostIP != "10.64.0.2" {
		t.Errorf("start time %v, pod IP %q, host IP %q", pod.Status.StartTime, pod.Status.PodIP, pod.Status.HostIP)
	}
	conditions := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, condition := range pod.Status.Conditions {
		conditions[condition.Type] = condition.Status
	}
	for _, want := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		if conditions[want] != corev1.ConditionTrue {
			t.Errorf("condition %s is %q", want, conditions[want])
		}
	}
	if len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Running == nil {
		t.Errorf("container statuses %+v", pod.Status.ContainerStatuses)
	}
	inits := pod.Status.InitContainerStatuses
	if len(inits) != 2 || inits[0].State.Terminated == nil || inits[1].State.Running == nil {
		t.Errorf("init container statuses %+v", inits)
	}
}

func testGracePeriod(t *testing.T, client kubernetes.Interface) {
	const grace = 10
	createBound(t, client, newPod("graceful", nil), "node-0")
	pod := waitPhase(t, client, "graceful", corev1.PodRunning)
	began := time.Now()
	deletePod(t, client, pod.Name, grace)
	// This change of a terminating pod must not start the grace period again.
	patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	terminating, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if terminating.DeletionTimestamp == nil || terminating.Status.Phase != corev1.PodRunning {
		t.Errorf("deletion timestamp %v, phase %s, want a running pod on its way out", terminating.DeletionTimestamp, terminating.Status.Phase)
	}
	waitGone(t, client, pod.Name)
	if took := time.Since(began); took < grace*time.Second {
		t.Errorf("gone after %s, want %d s at least", took, grace)
	}
}

func testGracePeriodCutShort(t *testing.T, client kubernetes.Interface) {
	createBound(t, client, newPod("impatient", nil), "node-0")
	waitPhase(t, client, "impatient", corev1.PodRunning)
	deletePod(t, client, "impatient", 3600)
	began := time.Now()
	deletePod(t, client, "impatient", 1)
	waitGone(t, client, "impatient")
	if took := time.Since(began); took < time.Second {
		t.Errorf("gone after %s, want 1 s at least", took)
	}
}

func testNoGracePeriod(t *testing.T, client kubernetes.Interface) {
	createBound(t, client, newPod("hasty", nil), "node-0")
	waitPhase(t, client, "hasty", corev1.PodRunning)
	deletePod(t, client, "hasty", 0)
	_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "hasty", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want not found", err)
	}
}

func testFinalizer(t *testing.T, client kubernetes.Interface) {
	createBound(t, client, newPod("held", func(pod *corev1.Pod) {
		pod.Finalizers = []string{"example.com/hold"}
	}), "node-0")
	waitPhase(t, client, "held", corev1.PodRunning)
	deletePod(t, client, "held", 1)
	// A grace period of zero means that the node has finished with the pod.
	var pod *corev1.Pod
	eventually(t, "pod held", func(ctx context.Context) string {
		var err error
		pod, err = client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "held", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if grace := pod.DeletionGracePeriodSeconds; grace == nil || *grace != 0 {
			return "its node has not let go of it"
		}
		return ""
	})
	if len(pod.Finalizers) != 1 || pod.Status.Phase != corev1.PodFailed {
		t.Errorf("finalizers %v, phase %s, want the finalizer on a failed pod", pod.Finalizers, pod.Status.Phase)
	}
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Patch(t.Context(), "held", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitGone(t, client, "held")
}

func testRunFor(t *testing.T, client kubernetes.Interface) {
	createBound(t, client, newPod("short", func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{playground.RunForAnnotation: "0m2s"}
	}), "node-0")
	succeeded := waitPhase(t, client, "short", corev1.PodSucceeded)
	ended := succeeded.Status.ContainerStatuses[0].State.Terminated.FinishedAt
	if took := ended.Sub(succeeded.Status.StartTime.Time); took < 2*time.Second {
		t.Errorf("succeeded after %s, want 2 s at least", took)
	}
}

func testBadRunFor(t *testing.T, client kubernetes.Interface) {
	createBound(t, client, newPod("unclear", func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{playground.RunForAnnotation: "soon"}
	}), "node-0")
	waitPhase(t, client, "unclear", corev1.PodRunning)
	// In kwok's configuration, only the stage for killed pods deletes this pod. Its deletion shows
	// that no earlier stage handled the pod.
	deletePod(t, client, "unclear", 1)
	waitGone(t, client, "unclear")
}

func testJob(t *testing.T, client kubernetes.Interface) {
	one := int32(1)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec: batchv1.JobSpec{
			Parallelism: &one,
			Completions: &one,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "train"}},
				Spec:       newPod("", func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }).Spec,
			},
		},
	}
	if _, err := client.BatchV1().Jobs(metav1.NamespaceDefault).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	first := waitPod(t, client, "app=train", "")
	bind(t, client, first.Name, "node-2")
	waitPhase(t, client, first.Name, corev1.PodRunning)
	deletePod(t, client, first.Name, 1)
	second := waitPod(t, client, "app=train", first.Name)
	waitGone(t, client, first.Name)
	bind(t, client, second.Name, "node-2")
	waitPhase(t, client, second.Name, corev1.PodRunning)
}

func testDeployment(t *testing.T, client kubernetes.Interface) {
	created := "app=" + createDeployment(t, client)
	pod := waitPod(t, client, created, "")
	bind(t, client, pod.Name, "node-2")
	waitPhase(t, client, pod.Name, corev1.PodRunning)
}

func createDeployment(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	const name = "serve"
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("", nil).Spec},
		},
	}
	if _, err := client.AppsV1().Deployments(metav1.NamespaceDefault).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}
