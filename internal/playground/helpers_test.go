package playground_test

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/reprieve-dev/reprieve/internal/playground"
)

const (
	patience = 3 * time.Minute
	interval = 25 * time.Millisecond
)

func nodeGroup(t *testing.T, count int) playground.NodeGroup {
	t.Helper()
	resources, err := playground.ParseNodeResources("cpu=8,memory=32Gi,nvidia.com/gpu=4")
	if err != nil {
		t.Fatal(err)
	}
	return playground.NodeGroup{Count: count, Resources: resources}
}

func newClient(t *testing.T, p *playground.Playground) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually waits until condition returns "". If it does not within patience, the test fails with
// the last result.
func eventually(t *testing.T, what string, condition func(ctx context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := ""
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		now := condition(ctx)
		if ctx.Err() != nil {
			// The condition may have failed because of the deadline, so keep the earlier result.
			return false, ctx.Err()
		}
		last = now
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %s (%v)", what, last, err)
	}
}

func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}},
		},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// createBound creates a pod and binds it to the node, without a scheduler.
func createBound(t *testing.T, client kubernetes.Interface, pod *corev1.Pod, node string) {
	t.Helper()
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind(t, client, pod.Name, node)
}

func bind(t *testing.T, client kubernetes.Interface, pod, node string) {
	t.Helper()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := client.CoreV1().Pods(metav1.NamespaceDefault).Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitPhase(t *testing.T, client kubernetes.Interface, name string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "pod "+name, func(ctx context.Context) string {
		var err error
		if pod, err = client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if pod.Status.Phase != phase {
			return "its phase is " + string(pod.Status.Phase)
		}
		return ""
	})
	return pod
}

func waitGone(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	eventually(t, "pod "+name, func(ctx context.Context) string {
		_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return "it is still there"
	})
}

func deletePod(t *testing.T, client kubernetes.Interface, name string, grace int64) {
	t.Helper()
	options := metav1.DeleteOptions{GracePeriodSeconds: &grace}
	if err := client.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), name, options); err != nil {
		t.Fatal(err)
	}
}

// waitPod waits for a pod that matches the selector and has another name than otherThan.
func waitPod(t *testing.T, client kubernetes.Interface, selector, otherThan string) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	eventually(t, "a pod with "+selector, func(ctx context.Context) string {
		pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err.Error()
		}
		for i := range pods.Items {
			if pods.Items[i].Name != otherThan {
				found = &pods.Items[i]
				return ""
			}
		}
		return "there is none"
	})
	return found
}

func serviceAccountToken(t *testing.T, p *playground.Playground) string {
	t.Helper()
	accounts := newClient(t, p).CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	request, err := accounts.CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// whoAmI returns the user name that the API server sees for the user of a kubeconfig.
func whoAmI(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}
