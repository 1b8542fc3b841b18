package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

const (
	// The work in fillerQueue fills the cluster and is evicted. The work in reclaimQueue reclaims
	// its room.
	fillerQueue, reclaimQueue = "filler", "reclaim"
	// creators is the number of concurrent API calls that create objects.
	creators = 32
	// nvidiaGPU is the name of the GPU resource that nodes have and pods request.
	nvidiaGPU corev1.ResourceName = "nvidia.com/gpu"
	// pause is the interval between two reads of a PodGroup.
	pause = 20 * time.Millisecond
)

// kaiCluster is a playground that runs one test.
type kaiCluster struct {
	p       *playground.Playground
	objects client.Client
	kube    kubernetes.Interface
	nodes   int
}

// newKAICluster starts a playground without a scheduler.
func newKAICluster(ctx context.Context, binDir string, nodes int) (*kaiCluster, error) {
	p, err := playground.Start(ctx, playground.Options{
		BinDir: binDir, CRDs: crds.FS, Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler},
		NodeGroups: []playground.NodeGroup{{Count: nodes, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
			nvidiaGPU: *resource.NewQuantity(kaiGPUs, resource.DecimalSI),
		}}},
	})
	if err != nil {
		return nil, err
	}
	c := &kaiCluster{p: p, nodes: nodes}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return c, nil
}

// connect creates clients without a rate limit.
func (c *kaiCluster) connect() error {
	config := c.p.RESTConfig()
	config.QPS = -1
	many := rest.CopyConfig(config)
	many.ContentType = runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(many)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	c.kube = kube
	c.objects, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

func (c *kaiCluster) startScheduler(ctx context.Context) error {
	_, err := c.p.StartScheduler(ctx, playground.Scheduler, playground.SchedulerOptions{})
	return err
}

// createQueues creates both queues. quota is the GPU quota of the filler queue. The filler queue
// can exceed its quota only while the other queue does not need the room.
func (c *kaiCluster) createQueues(ctx context.Context, quota int64) error {
	filler := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: fillerQueue}}
	filler.Spec.OverQuotaWeight = ptr.To[int32](0)
	if quota > 0 {
		filler.Spec.Quota = corev1.ResourceList{nvidiaGPU: *resource.NewQuantity(quota, resource.DecimalSI)}
	}
	if err := c.objects.Create(ctx, filler); err != nil {
		return err
	}
	return c.objects.Create(ctx, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: reclaimQueue}})
}

// fill creates the queues, and runs a pod of the filler queue on each GPU of the cluster.
func (c *kaiCluster) fill(ctx context.Context, quota int64) error {
	if err := c.createQueues(ctx, quota); err != nil {
		return err
	}
	pods := c.singles("filler", fillerQueue)
	for i, pod := range pods {
		pod.Spec.NodeName = fmt.Sprintf("node-%d", i/kaiGPUs)
	}
	if err := c.createPods(ctx, pods); err != nil {
		return err
	}
	return c.waitRunning(ctx, len(pods))
}

// singles returns a single-GPU pod for each GPU of the cluster.
func (c *kaiCluster) singles(name, queue string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range c.nodes * kaiGPUs {
		pod := newPod(fmt.Sprintf("%s-%d", name, i), 1)
		pod.Labels = map[string]string{v1alpha1.LabelQueue: queue}
		pods = append(pods, pod)
	}
	return pods
}

// createGang creates a gang in reclaimQueue. Each member requests a number of GPUs.
func (c *kaiCluster) createGang(ctx context.Context, name string, members int, gpus int64) error {
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	group.Spec.QueueName = ptr.To(reclaimQueue)
	group.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(members)}}
	if err := c.objects.Create(ctx, group); err != nil {
		return err
	}
	var pods []*corev1.Pod
	for i := range members {
		pod := newPod(fmt.Sprintf("%s-%d", name, i), gpus)
		pod.Labels = map[string]string{v1alpha1.LabelPodGroup: name}
		pods = append(pods, pod)
	}
	return c.createPods(ctx, pods)
}

func newPod(name string, gpus int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "reprieve-scheduler", TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{
				Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{nvidiaGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}},
			}},
		},
	}
}

func (c *kaiCluster) createPods(ctx context.Context, pods []*corev1.Pod) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for _, pod := range pods {
		g.Go(func() error { return c.objects.Create(ctx, pod) })
	}
	return g.Wait()
}

// timeUntilPlaced starts the scheduler. It returns the time from the start until count pods whose
// names begin with prefix have nodes.
func (c *kaiCluster) timeUntilPlaced(ctx context.Context, prefix string, count int) (time.Duration, error) {
	placed, err := c.followPlaced(ctx, prefix, count)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.startScheduler(ctx); err != nil {
		return 0, err
	}
	return since(ctx, began, placed)
}

// timeUntilReported creates a gang, and returns the time until its PodGroup reports that the gang
// is unschedulable. It deletes the gang afterwards.
func (c *kaiCluster) timeUntilReported(ctx context.Context, name string, members int) (time.Duration, error) {
	began := time.Now()
	if err := c.createGang(ctx, name, members, kaiGPUs); err != nil {
		return 0, err
	}
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	for {
		if err := c.objects.Get(ctx, client.ObjectKeyFromObject(group), group); err != nil {
			return 0, err
		}
		cond := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		if cond != nil && cond.Reason == v1alpha1.ReasonUnschedulable {
			break
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	took := time.Since(began)
	err := c.objects.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{v1alpha1.LabelPodGroup: name})
	return took, errors.Join(err, c.objects.Delete(ctx, group))
}

// followPlaced returns a channel. It receives the time when count pods whose names begin with
// prefix have nodes.
func (c *kaiCluster) followPlaced(ctx context.Context, prefix string, count int) (<-chan time.Time, error) {
	return c.follow(ctx, count, func(pod *corev1.Pod) bool {
		return strings.HasPrefix(pod.Name, prefix) && pod.Spec.NodeName != ""
	})
}

// waitRunning waits until count pods run.
func (c *kaiCluster) waitRunning(ctx context.Context, count int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running, err := c.follow(ctx, count, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	if err != nil {
		return err
	}
	_, err = since(ctx, time.Now(), running)
	return err
}

// follow returns a channel. It receives the time when count pods have met the condition.
func (c *kaiCluster) follow(ctx context.Context, count int, met func(*corev1.Pod) bool) (<-chan time.Time, error) {
	factory := informers.NewSharedInformerFactory(c.kube, 0)
	all, names, lock := make(chan time.Time, 1), make(map[string]bool), sync.Mutex{}
	see := func(obj any) {
		pod, ok := obj.(*corev1.Pod)
		if !ok || !met(pod) {
			return
		}
		lock.Lock()
		defer lock.Unlock()
		if !names[pod.Name] {
			if names[pod.Name] = true; len(names) == count {
				all <- time.Now()
			}
		}
	}
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return all, nil
}
