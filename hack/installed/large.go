package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
)

const (
	// largePods is the number of pods, and largeNodes the number of nodes. Each node has 4 CPUs and
	// 20 pods with 190 milli-CPUs each, so 200 milli-CPUs remain free.
	largeNodes, largePods = 1000, 20000
	largeNode, largePod   = "4", "190m"
	// fitting is a CPU request that fits on a node without an eviction. preempting is a CPU request
	// that fits after the eviction of one pod.
	fitting, preempting = "1m", "385m"
	// perMinute is the number of preempting pods per minute. minutes is the duration of the
	// measurement in minutes.
	perMinute, minutes = 100, 3
	// largePatience is the timeout of each step that concerns all pods of the cluster.
	largePatience = 20 * time.Minute
	// measuredLabel is the label of the measured pods.
	measuredLabel = "measured"
	// leaseNamespace and leaseName identify the Lease of the schedulers, as in an installation.
	leaseNamespace, leaseName = "reprieve-system", "reprieve-scheduler"
)

// largeResult has the latencies that were measured in a large cluster.
type largeResult struct {
	// startUp is the time from the start of the scheduler's process until a pod that was already
	// waiting has a node.
	startUp time.Duration
	// preemptions has, for each preempting pod, the time from its creation until it has a node.
	// gone counts the pods that were evicted for them.
	preemptions []time.Duration
	gone        int
	// killed is the time from the expiry of a killed leader's Lease until the next leader has
	// placed a pod. led is the part of this time after the next leader has acquired the Lease.
	// handedOver is the time from the signal that stops a leader until the next leader has placed a
	// pod.
	killed, led, handedOver time.Duration
}

// large is the measured cluster, with largeNodes nodes and largePods pods.
type large struct {
	*playground.Playground
	objects client.Client
	config  string
	placed  *placedPods
}

// measureLarge measures two schedulers with the configuration of an installation. It measures the
// start of a scheduler, preemptions, and changes of the leader.
func measureLarge(ctx context.Context, binDir, config string) (r *largeResult, err error) {
	nodes := playground.NodeGroup{Count: largeNodes, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(largeNode)}}
	p, err := playground.Start(ctx, playground.Options{
		BinDir: binDir, CRDs: crds.FS, NodeGroups: []playground.NodeGroup{nodes}, Scheduler: playground.SchedulerOptions{Path: playground.NoScheduler},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, largePatience)
	defer cancel()
	l, err := fill(ctx, p, config)
	if err != nil {
		return nil, err
	}
	r = &largeResult{}
	began := time.Now()
	if err := l.create(ctx, "first", "low", fitting); err != nil {
		return nil, err
	}
	one, err := l.start(ctx, "one")
	if err != nil {
		return nil, err
	}
	if r.startUp, err = l.placed.since(ctx, "first", began); err != nil {
		return nil, err
	}
	if err := l.preempt(ctx, r); err != nil {
		return nil, err
	}
	return r, l.takeOver(ctx, one, r)
}

// fill creates the initial pods, and waits until they run on the nodes.
func fill(ctx context.Context, p *playground.Playground, config string) (*large, error) {
	objects, kube, err := clients(p)
	if err != nil {
		return nil, err
	}
	for _, o := range []client.Object{
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: leaseNamespace}},
	} {
		if err := objects.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	var pods []*corev1.Pod
	for i := range largePods {
		pods = append(pods, newPod(fmt.Sprintf("low-%d", i), "low", "", largePod, fmt.Sprintf("node-%d", i%largeNodes)))
	}
	if err := createAll(ctx, objects, pods); err != nil {
		return nil, err
	}
	if err := waitRunning(ctx, kube, len(pods)); err != nil {
		return nil, err
	}
	placed := &placedPods{at: map[string]time.Time{}, changed: make(chan struct{})}
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = measuredLabel
	}))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: placed.see, UpdateFunc: func(_, obj any) { placed.see(obj) }})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return &large{Playground: p, objects: objects, config: config, placed: placed}, nil
}

// start starts one more scheduler. It returns once any of the schedulers is the leader.
func (l *large) start(ctx context.Context, name string) (*playground.Component, error) {
	return l.StartScheduler(ctx, name, playground.SchedulerOptions{Config: l.config})
}

// create creates a measured pod.
func (l *large) create(ctx context.Context, name, class, cpu string) error {
	pod := newPod(name, class, "", cpu, "")
	pod.Labels = map[string]string{measuredLabel: ""}
	return l.objects.Create(ctx, pod)
}

// preempt creates the preempting pods, one after the other. Each pod needs the room of one pod of
// lower priority.
func (l *large) preempt(ctx context.Context, r *largeResult) error {
	created := make([]time.Time, perMinute*minutes)
	for i := range created {
		created[i] = time.Now()
		if err := l.create(ctx, fmt.Sprintf("high-%d", i), "high", preempting); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(created[0].Add(time.Duration(i+1) * time.Minute / perMinute))):
		}
	}
	for i, at := range created {
		took, err := l.placed.since(ctx, fmt.Sprintf("high-%d", i), at)
		if err != nil {
			return err
		}
		r.preemptions = append(r.preemptions, took)
	}
	var left corev1.PodList
	if err := l.objects.List(ctx, &left, client.InNamespace(namespace)); err != nil {
		return err
	}
	r.gone = largePods + 1 + len(created) - len(left.Items)
	return nil
}

// takeOver first kills the leader. Then it sends a signal to the next leader. Before each step, it
// starts another scheduler as a standby.
func (l *large) takeOver(ctx context.Context, one *playground.Component, r *largeResult) error {
	two, err := l.start(ctx, "two")
	if err != nil {
		return err
	}
	if err := one.Kill(syscall.SIGKILL); err != nil {
		return err
	}
	lease, err := l.lease(ctx)
	if err != nil {
		return err
	}
	ends := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	if err := l.create(ctx, "after-kill", "low", fitting); err != nil {
		return err
	}
	if r.killed, err = l.placed.since(ctx, "after-kill", ends); err != nil {
		return err
	}
	if lease, err = l.lease(ctx); err != nil {
		return err
	}
	r.led = r.killed - lease.Spec.AcquireTime.Sub(ends)
	if err := one.Start(ctx); err != nil {
		return err
	}
	// The restarted scheduler is now a ready standby. Wait until the leader has placed one more
	// pod, so that the leader stops in a steady state.
	asked := time.Now()
	if err := l.create(ctx, "after-signal", "low", fitting); err != nil {
		return err
	}
	if _, err = l.placed.since(ctx, "after-signal", asked); err != nil {
		return err
	}
	asked = time.Now()
	if err := two.Kill(syscall.SIGTERM); err != nil {
		return err
	}
	if err := l.create(ctx, "handed-over", "low", fitting); err != nil {
		return err
	}
	r.handedOver, err = l.placed.since(ctx, "handed-over", asked)
	return err
}

func (l *large) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := l.objects.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, lease)
	if err == nil && (lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil || lease.Spec.AcquireTime == nil) {
		err = errors.New("the lease has no holder")
	}
	return lease, err
}

// placedPods records the time when each pod was first seen with a node. Its methods are safe for
// concurrent use.
type placedPods struct {
	mu      sync.Mutex
	at      map[string]time.Time
	changed chan struct{}
}

func (p *placedPods) see(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.at[pod.Name]; !ok {
		p.at[pod.Name] = time.Now()
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// since waits until a pod has a node, and returns the duration from began until the pod was seen
// with it.
func (p *placedPods) since(ctx context.Context, name string, began time.Time) (time.Duration, error) {
	for {
		p.mu.Lock()
		at, ok := p.at[name]
		changed := p.changed
		p.mu.Unlock()
		if ok {
			return at.Sub(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the node of %s: %w", name, context.Cause(ctx))
		case <-changed:
		}
	}
}

func largeTable(r *largeResult) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Latencies in a large cluster: %d nodes and %d pods.\n\n| Measurement | Time |\n| --- | ---: |\n", largeNodes, largePods)
	row := func(what string, took time.Duration) { fmt.Fprintf(&out, "| %s | %.2f s |\n", what, took.Seconds()) }
	row("Start of the process, until a pending pod has a node", r.startUp)
	row(fmt.Sprintf("A preemption, with %d preemptors a minute for %d minutes (%d pods evicted): p50", perMinute, minutes, r.gone), percentile(r.preemptions, 0.5))
	row("The same, p99", percentile(r.preemptions, 0.99))
	row("Leader killed: from the end of its lease until the next pod has a node", r.killed)
	row("The part of this time after another instance has acquired the lease", r.led)
	row("Leader stopped by a signal: from the signal until the next pod has a node", r.handedOver)
	return out.String()
}
