package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

const (
	namespace = metav1.NamespaceDefault
	// low and high are the names of the PriorityClasses of the gangs.
	low, high = "low", "high"
	// pollEvery is the interval between two requests that poll the API server.
	pollEvery = 100 * time.Millisecond
)

// cluster is a client of the cluster under test.
type cluster struct {
	client.Client
}

func newCluster(config *rest.Config) (*cluster, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make the client: %w", err)
	}
	return &cluster{Client: c}, nil
}

func (c *cluster) createClasses(ctx context.Context) error {
	for name, value := range map[string]int32{low: 0, high: 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if err := c.Create(ctx, class); err != nil {
			return fmt.Errorf("create the PriorityClass %s: %w", name, err)
		}
	}
	return nil
}

// createGang creates a PodGroup and its members. Each member requests all GPUs of a node. The
// gang's minCount is the number of members. A gang of the class low can only be preempted whole.
func (c *cluster) createGang(ctx context.Context, name, class string, members int) error {
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	group.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(members)}}
	group.Spec.PriorityClassName = ptr.To(class)
	if class == low {
		group.Spec.DisruptionMode = ptr.To(v1alpha1.DisruptionModePodGroup)
	}
	if err := c.Create(ctx, group); err != nil {
		return fmt.Errorf("create the PodGroup %s: %w", name, err)
	}
	for i := range members {
		pod := newPod(fmt.Sprintf("%s-%d", name, i), class)
		pod.Labels = map[string]string{v1alpha1.LabelPodGroup: name}
		if err := c.Create(ctx, pod); err != nil {
			return fmt.Errorf("create the pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

func newPod(name, class string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "reprieve-scheduler", PriorityClassName: class, TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{gpu: *resource.NewQuantity(gpusPerNode, resource.DecimalSI)},
			}}},
		},
	}
}

func (c *cluster) members(ctx context.Context, gang string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelPodGroup: gang}); err != nil {
		return nil, fmt.Errorf("list the members of %s: %w", gang, err)
	}
	return list.Items, nil
}

// eventually calls look every pollEvery until look returns nil. If ctx ends first, eventually
// returns the last error of look.
func eventually(ctx context.Context, look func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		last = look(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// awaitVerdict waits until the scheduler reports that a gang has no room, and returns the
// scheduler's message.
func (c *cluster) awaitVerdict(ctx context.Context, gang string) (message string, err error) {
	err = eventually(ctx, func(ctx context.Context) error {
		var group v1alpha1.PodGroup
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: gang}, &group); err != nil {
			return fmt.Errorf("read the PodGroup %s: %w", gang, err)
		}
		condition := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != v1alpha1.ReasonUnschedulable {
			return fmt.Errorf("PodGroup %s is not reported as unschedulable: %+v", gang, condition)
		}
		message = condition.Message
		return nil
	})
	return message, err
}

// clear deletes all pods and PodGroups, and waits until the pods are gone.
func (c *cluster) clear(ctx context.Context) error {
	err := errors.Join(
		c.DeleteAllOf(ctx, &v1alpha1.PodGroup{}, client.InNamespace(namespace)),
		c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace)),
	)
	if err != nil {
		return fmt.Errorf("delete the objects of the check: %w", err)
	}
	return eventually(ctx, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		if n := len(pods.Items); n > 0 {
			return fmt.Errorf("%d pods of the last check are left", n)
		}
		return nil
	})
}
