package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/derived"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// NotOursError is the error for a preview of a pod that belongs to another scheduler.
type NotOursError struct {
	// Pod is the pod, and Scheduler is its schedulerName.
	Pod       types.NamespacedName
	Scheduler string
	// Profiles has the scheduler names of the configuration's profiles.
	Profiles []string
}

// Error names the schedulerName that the pod must have.
func (e *NotOursError) Error() string {
	return fmt.Sprintf("pod %s asks for the scheduler %q, and Reprieve's configuration has %q: write schedulerName: %s in its spec, or give the file of another configuration with --config",
		e.Pod, e.Scheduler, e.Profiles, e.Profiles[0])
}

// Cluster is a scheduler that has the objects of an inventory and runs no scheduling cycles. It is
// not safe for concurrent use. The caller of [New] must call Close.
type Cluster struct {
	objects *inventory.Inventory
	sched   *kubescheduler.Scheduler
	shared  *scheduler.Scheduler
	// plugins maps a scheduler name to the instance of Reprieve's plugin in that profile.
	plugins map[string]*scheduler.Plugin
	groups  gang.Source
	trees   *gang.Trees
	derived *derived.Groups
	// pods has the pods of the inventory, sorted by namespace and name. The informer's cache shares
	// them, so they must not be changed.
	pods []*corev1.Pod
	// members maps a group to the number of its members that count towards minCount. These members
	// have not finished, do not terminate and have no scheduling gates. The map is nil until
	// isComplete needs it.
	members map[types.NamespacedName]int
	close   func()
}

// New returns a Cluster with the objects. cfg is the scheduler's configuration, including its
// profiles and extenders.
func New(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration) (*Cluster, error) {
	return newCluster(ctx, objects, cfg, func(groups gang.Source) gang.Source { return groups })
}

// newCluster returns a Cluster like [New]. view maps the source with the PodGroups of the objects
// to the source that the scheduler uses.
func newCluster(ctx context.Context, objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration, view func(gang.Source) gang.Source) (*Cluster, error) {
	belonging, err := derived.New(objects, cfg)
	if err != nil {
		return nil, err
	}
	trees, keys, err := derived.Trees(objects, belonging)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://inventory.invalid", Transport: server{objects}, QPS: -1})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	// Canceling this context ends all goroutines of the Cluster.
	running, cancel := context.WithCancel(ctx)
	c := &Cluster{objects: objects, groups: view(trees), trees: trees, derived: belonging, plugins: make(map[string]*scheduler.Plugin), close: cancel}
	// The factory's informer of pods omits finished pods.
	factory := kubescheduler.NewInformerFactory(client, 0, nil)
	if c.sched, err = c.newScheduler(running, client, factory, cfg); err != nil {
		cancel()
		return nil, fmt.Errorf("make the scheduler: %w", err)
	}
	c.close = func() {
		cancel()
		c.sched.SchedulingQueue.Close()
		factory.Shutdown()
	}
	if err := c.fill(running, factory, keys); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// Close ends all goroutines of the Cluster.
func (c *Cluster) Close() { c.close() }

// newScheduler returns a kube-scheduler with Reprieve's plugins. It stores the instances of
// Reprieve's plugin in c.plugins.
func (c *Cluster) newScheduler(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, cfg *config.KubeSchedulerConfiguration) (*kubescheduler.Scheduler, error) {
	inputs := scheduler.Inputs{
		Groups: c.groups, Trees: c.trees, Engine: engine.New(nil), Evictor: idle{},
		Clock: stopped{c.objects.Taken}, SchedulingGroups: len(c.objects.Objects(inventory.NativePodGroups)) > 0,
	}
	if c.derived.Used() {
		inputs.Derived = c.derived
	}
	plugins := scheduler.NewPlugins(inputs)
	registry := plugins.Registry()
	newPlugin := registry[scheduler.Name]
	registry[scheduler.Name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		made, err := newPlugin(ctx, args, handle)
		if plugin, ok := made.(*scheduler.Plugin); ok {
			if full, ok := handle.(framework.Framework); ok {
				c.plugins[full.ProfileName()] = plugin
			}
		}
		return made, err
	}
	profiles := cfg.DeepCopy().Profiles
	scheduler.AddGate(profiles)
	sched, err := kubescheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return silent{} },
		kubescheduler.WithComponentConfigVersion(cfg.APIVersion),
		kubescheduler.WithProfiles(profiles...),
		kubescheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		kubescheduler.WithFrameworkOutOfTreeRegistry(registry),
		kubescheduler.WithExtenders(cfg.Extenders...),
		kubescheduler.WithParallelism(cfg.Parallelism),
	)
	if err != nil {
		return nil, err
	}
	if c.shared = plugins.Scheduler(); c.shared == nil {
		return nil, errors.New("no profile of the configuration has the plugin " + scheduler.Name)
	}
	return sched, nil
}

// fill passes all objects to the scheduler. The order is the same as at the start of a real
// scheduler.
func (c *Cluster) fill(ctx context.Context, factory informers.SharedInformerFactory, groups []types.NamespacedName) error {
	queues, err := inventory.Decode[*v1alpha1.Queue](c.objects, inventory.Queues)
	if err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	for _, q := range queues {
		c.shared.QueueSet(q)
	}
	for _, key := range groups {
		workloads, moves := c.trees.Changed(key)
		c.shared.PartChanged(key, workloads, moves)
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("read %v: %w", kind, context.Cause(ctx))
		}
	}
	if err := c.awaitHandlers(ctx); err != nil {
		return err
	}
	if err := c.shared.Settle(ctx); err != nil {
		return err
	}
	if c.pods, err = factory.Core().V1().Pods().Lister().List(labels.Everything()); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	slices.SortFunc(c.pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// awaitHandlers waits until the scheduler has processed all objects. It checks every 2
// milliseconds. The library's own function checks only every 100 milliseconds. In a small cluster,
// this interval would be most of the duration of a preview.
func (c *Cluster) awaitHandlers(ctx context.Context) error {
	const soon = 2 * time.Millisecond
	for {
		short, cancel := context.WithTimeout(ctx, soon)
		err := c.sched.WaitForHandlersSync(short)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the scheduler: %w", context.Cause(ctx))
		}
	}
}

// Preview returns the result that the next scheduling cycle would have for a pending pod, or for
// its gang. It returns a [*NotOursError] for a pod of another scheduler.
func (c *Cluster) Preview(ctx context.Context, key types.NamespacedName) (scheduler.Preview, error) {
	pod, ok := c.Pod(key)
	if !ok {
		return scheduler.Preview{}, fmt.Errorf("pod %s is not among the objects", key)
	}
	plugin, ok := c.plugins[pod.Spec.SchedulerName]
	if !ok {
		return scheduler.Preview{}, &NotOursError{Pod: key, Scheduler: pod.Spec.SchedulerName, Profiles: slices.Sorted(maps.Keys(c.plugins))}
	}
	if err := c.level(pod.Spec.SchedulerName); err != nil {
		return scheduler.Preview{}, err
	}
	preview, err := plugin.Preview(ctx, pod)
	if err != nil {
		return scheduler.Preview{}, err
	}
	return preview, nil
}

// level updates the snapshot of a profile's framework from the cache, as the framework does at the
// start of each scheduling cycle.
func (c *Cluster) level(profile string) error {
	snapshot, ok := c.sched.Profiles[profile].SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return fmt.Errorf("the snapshot of profile %s is of a type that is not known", profile)
	}
	if err := c.sched.Cache.UpdateSnapshot(klog.Background(), snapshot); err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	return nil
}

// Pod returns the pod with the name. It returns false if there is none. The caller must not change
// the pod.
func (c *Cluster) Pod(key types.NamespacedName) (*corev1.Pod, bool) {
	i, found := slices.BinarySearchFunc(c.pods, key, func(pod *corev1.Pod, key types.NamespacedName) int {
		return cmp.Or(cmp.Compare(pod.Namespace, key.Namespace), cmp.Compare(pod.Name, key.Name))
	})
	if !found {
		return nil, false
	}
	return c.pods[i], true
}

// Scheduler returns the state that the profiles of Reprieve's plugin share, such as the quota
// ledger and the members of groups.
func (c *Cluster) Scheduler() *scheduler.Scheduler { return c.shared }

// GroupOf returns the key of the PodGroup or the tree that a pod belongs to, as the scheduler
// determines it.
func (c *Cluster) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	return c.trees.Membership(c.derived).GroupOf(pod)
}

// Groups returns the source of PodGroups.
func (c *Cluster) Groups() gang.Source { return c.groups }

// idle is an evictor that evicts nothing.
type idle struct{}

// Evict returns an error. It is never called, because no PostFilter runs.
func (idle) Evict(context.Context, eviction.Order, eviction.Scheduler) <-chan eviction.Outcome {
	refused := make(chan eviction.Outcome, 1)
	refused <- eviction.Outcome{Err: errors.New("nothing is evicted in a preview")}
	return refused
}

// Nominate does nothing.
func (idle) Nominate(context.Context, []podstatus.Nomination) {}

// silent is an event recorder that records nothing.
type silent struct{}

// Eventf does nothing.
func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// WithLogger returns the recorder itself.
func (s silent) WithLogger(klog.Logger) events.EventRecorderLogger { return s }
