package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
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
	"github.com/reprieve-dev/reprieve/internal/playground"
)

const (
	namespace = metav1.NamespaceDefault
	// perNode is the number of victims on each node. A member of the preempting gang needs a whole
	// node.
	perNode = 4
	// creators is the number of concurrent API calls that create objects.
	creators = 32
	// patience is the timeout of each wait.
	patience = 5 * time.Minute
)

// gangSizes returns the sizes of the preempting gangs. A gang evicts perNode pods for each of its
// members.
func gangSizes() []int { return []int{50, 200} }

// gangResult has the latencies of gangs of one size under one setting. A latency is the time from
// the creation of the gang's first pod until its last pod has a node.
type gangResult struct {
	size    int
	setting string
	took    []time.Duration
}

// measureGangs measures gangs of each size. For each size, it alternates between the settings.
func measureGangs(ctx context.Context, binDir string, runs int) ([]gangResult, error) {
	var results []gangResult
	for _, size := range gangSizes() {
		of := make([]gangResult, len(settings()))
		for range runs {
			for i, s := range settings() {
				took, err := measureGang(ctx, binDir, &s, size)
				if err != nil {
					return nil, fmt.Errorf("gang of %d, %s: %w", size, s.name, err)
				}
				fmt.Fprintf(os.Stderr, "gang of %d, %s: %.2f s\n", size, s.name, took.Seconds())
				of[i].size, of[i].setting, of[i].took = size, s.name, append(of[i].took, took)
			}
		}
		results = append(results, of...)
	}
	return results, nil
}

// measureGang starts a playground and measures one preemption by a gang.
func measureGang(ctx context.Context, binDir string, s *setting, size int) (took time.Duration, err error) {
	nodes := playground.NodeGroup{Count: size, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(perNode))}}
	p, err := start(ctx, binDir, s, nodes)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	objects, kube, err := clients(p)
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]int32{"low": 0, "high": 100} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if err := objects.Create(ctx, class); err != nil {
			return 0, err
		}
	}
	var victims []*corev1.Pod
	for i := range size * perNode {
		victims = append(victims, newPod(fmt.Sprintf("low-%d", i), "low", "", "1", fmt.Sprintf("node-%d", i%size)))
	}
	if err := createAll(ctx, objects, victims); err != nil {
		return 0, err
	}
	if err := waitRunning(ctx, kube, len(victims)); err != nil {
		return 0, err
	}
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gang"}}
	group.Spec.SchedulingPolicy = &v1alpha1.SchedulingPolicy{Gang: &v1alpha1.GangSchedulingPolicy{MinCount: int32(size)}}
	group.Spec.PriorityClassName = ptr.To("high")
	if err := objects.Create(ctx, group); err != nil {
		return 0, err
	}
	placed, err := followPlaced(ctx, kube, size)
	if err != nil {
		return 0, err
	}
	var members []*corev1.Pod
	for i := range size {
		members = append(members, newPod(fmt.Sprintf("gang-%d", i), "high", "gang", fmt.Sprint(perNode), ""))
	}
	began := time.Now()
	if err := createAll(ctx, objects, members); err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the gang: %w", context.Cause(ctx))
	case at := <-placed:
		return at.Sub(began), nil
	}
}

// followPlaced returns a channel. It receives the time when the given number of members have nodes.
func followPlaced(ctx context.Context, kube kubernetes.Interface, size int) (<-chan time.Time, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = v1alpha1.LabelPodGroup
	}))
	all, names := make(chan time.Time, 1), map[string]bool{}
	see := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" && !names[pod.Name] {
			if names[pod.Name] = true; len(names) == size {
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

// clients returns two clients without a rate limit: one for all kinds, and one for lists and
// watches of many objects.
func clients(p *playground.Playground) (client.Client, kubernetes.Interface, error) {
	config := p.RESTConfig()
	config.QPS = -1
	many := rest.CopyConfig(config)
	many.ContentType = runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(many)
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, nil, err
	}
	objects, err := client.New(config, client.Options{Scheme: scheme})
	return objects, kube, err
}

func newPod(name, class, group, cpus, node string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "reprieve-scheduler", PriorityClassName: class, NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{
				Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}},
			}},
		},
	}
	if group != "" {
		pod.Labels = map[string]string{v1alpha1.LabelPodGroup: group}
	}
	return pod
}

func createAll(ctx context.Context, objects client.Client, pods []*corev1.Pod) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for _, pod := range pods {
		g.Go(func() error { return objects.Create(ctx, pod) })
	}
	return g.Wait()
}

func waitRunning(ctx context.Context, kube kubernetes.Interface, count int) error {
	for {
		list, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running", ResourceVersion: "0"})
		if err != nil {
			return err
		}
		if len(list.Items) == count {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods run: %w", len(list.Items), count, context.Cause(ctx))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func gangTable(results []gangResult) string {
	var out strings.Builder
	out.WriteString(`The time of a preemption by a gang, from the creation of its first member until its last member has
a node. The column *Calls* has the limit on the scheduler's API calls. *Ratio* is the p50 divided by
the p50 of the same gang as installed.

| Gang | Calls | p50 | p99 | Ratio |
| --- | --- | ---: | ---: | ---: |
`)
	installed := map[int]time.Duration{}
	for _, r := range results {
		half, most := percentile(r.took, 0.5), percentile(r.took, 0.99)
		if r.setting == settings()[0].name {
			installed[r.size] = half
		}
		ratio := half.Seconds() / installed[r.size].Seconds()
		fmt.Fprintf(&out, "| %d members preempt %d pods | %s | %.2f s | %.2f s | %.2f× |\n", r.size, perNode*r.size, r.setting, half.Seconds(), most.Seconds(), ratio)
	}
	return out.String()
}
