package throughput

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/pacing"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// crdTimeout is the timeout of the wait until the API server serves the CRDs.
const crdTimeout = time.Minute

// assembly creates the parts of Reprieve for each workload, like the main function of
// reprieve-scheduler.
type assembly struct {
	metrics *metrics.Metrics
	// handle is the framework handle that the current plugins belong to.
	handle  fwk.Handle
	plugins *scheduler.Plugins
	// controllers starts the controllers. It is nil after the start, and on upstream's side.
	controllers func() error
}

// registry returns the factories of Reprieve's plugins. The framework creates only the plugins that
// a profile enables. So upstream's side has no plugin of Reprieve.
func (a *assembly) registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{
		scheduler.Name:     a.factory(scheduler.Name),
		scheduler.GateName: a.factory(scheduler.GateName),
		scheduler.SortName: a.factory(scheduler.SortName),
	}
}

// factory returns the factory of a plugin. The first plugin of each scheduler also creates the
// other parts of Reprieve: scheduler_perf calls no other function between the start of the API
// server and the start of the scheduler. The parts run until ctx is done.
func (a *assembly) factory(name string) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if a.handle != handle {
			if err := a.assemble(ctx, handle); err != nil {
				return nil, err
			}
			a.handle = handle
		}
		return a.plugins.Registry()[name](ctx, args, handle)
	}
}

func (a *assembly) assemble(ctx context.Context, handle fwk.Handle) error {
	if err := installCRDs(ctx, handle.KubeConfig()); err != nil {
		return err
	}
	// The client has the default settings of an installation, which configures no rate. Only the
	// framework itself uses the client of scheduler_perf.
	rest := pacing.New(clock.RealClock{}).Config(handle.KubeConfig())
	kube, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	objects, err := cache.New(rest, cache.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make the cache of %s: %w", v1alpha1.GroupName, err)
	}
	cached, err := client.New(rest, client.Options{Scheme: scheme, Cache: &client.CacheOptions{Reader: objects}})
	if err != nil {
		return fmt.Errorf("make the client of %s: %w", v1alpha1.GroupName, err)
	}
	direct, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make the client of %s: %w", v1alpha1.GroupName, err)
	}
	changed, evicted := &controller.Trigger{}, &controller.Trigger{}
	records := engine.New(func(key workload.Key) { changed.Request(gang.NameOf(key)) })
	broadcaster := events.NewEventBroadcasterAdapterWithContext(ctx, kube)
	broadcaster.StartRecordingToSink(ctx.Done())
	context.AfterFunc(ctx, broadcaster.Shutdown)
	recorder := broadcaster.NewRecorder(handle.ProfileName())
	statuses := podstatus.New(ctx, kube, kube, flowcontrol.NewFakeAlwaysRateLimiter(), clock.RealClock{})
	executor := eviction.New(ctx, kube, direct, statuses, recorder, clock.RealClock{},
		eviction.WithMetrics(a.metrics), eviction.WithGroupDone(evicted.Request))
	var plugins *scheduler.Plugins
	groups, err := controller.NewGroups(ctx, objects, controller.GroupHandlers{
		Changed: func(key types.NamespacedName) {
			if shared := plugins.Scheduler(); shared != nil {
				shared.GroupChanged(key)
			}
		},
		Saved: func(types.NamespacedName) {},
	})
	if err != nil {
		return err
	}
	decisions, err := record(ctx)
	if err != nil {
		return err
	}
	made, err := newDerived(rest)
	if err != nil {
		return err
	}
	plugins = scheduler.NewPlugins(scheduler.Inputs{
		Groups: groups, Engine: records, Evictor: executor, Statuses: statuses, Metrics: a.metrics, Decisions: decisions, Derived: made.resolver,
	})
	run(ctx, "cache", objects.Start)
	if !objects.WaitForCacheSync(ctx) || !groups.WaitForSync(ctx) {
		return fmt.Errorf("fill the cache of %s: %w", v1alpha1.GroupName, context.Cause(ctx))
	}
	a.plugins = plugins
	framework, ok := handle.(framework.Framework)
	if !ok {
		return fmt.Errorf("the handle %T is no framework", handle)
	}
	a.controllers = func() error {
		// No pod exists yet, so no scheduling cycle uses the framework during this call.
		framework.SetAPICacher(statuses)
		go statuses.Run()
		shared := plugins.Scheduler()
		if err := made.follow(ctx, shared); err != nil {
			return err
		}
		queuesTold, err := controller.FollowQueues(ctx, objects, shared)
		if err != nil {
			return err
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), queuesTold) {
			return fmt.Errorf("fill the cache of Queues: %w", context.Cause(ctx))
		}
		shared.Lead()
		inputs := controller.Inputs{
			Client: cached, QueueClient: cached, Source: groups, Cache: objects, Informers: handle.SharedInformerFactory(), Finished: shared.Finished(), Members: shared, Runs: shared.Runs(),
			Gangs: records.Gangs, Changed: changed, Evicted: evicted, Recorder: recorder, Clock: clock.RealClock{}, Ledger: shared.Quotas(),
			Queues: shared, OrphanedPods: a.metrics.Orphaned, MalformedTolerations: a.metrics.Malformed,
			Derived: made.resolver, DerivedChanged: made.changed, HoldChanged: made.held, SayOfPod: statuses.Say, HeldPods: a.metrics.Held,
		}
		pods := handle.SharedInformerFactory().Core().V1().Pods().Lister()
		inputs.Finisher = eviction.NewFinisher(executor, inputs.Groups(), pods, shared, shared.TerminationTimeout)
		run(ctx, "controllers", func(ctx context.Context) error { return controller.Run(ctx, inputs) })
		return nil
	}
	return nil
}

// decisionLogVariable is the environment variable with the path of the decision log. Without it,
// decisions are only kept in memory.
const decisionLogVariable = "PERF_DECISION_LOG"

// record returns the decision log. Its file is written until ctx is done.
func record(ctx context.Context) (*decisionlog.Log, error) {
	path := os.Getenv(decisionLogVariable)
	if path == "" {
		return decisionlog.New(decisionlog.Options{}), nil
	}
	const most, backups = 100 << 20, 5
	file, err := decisionlog.OpenFile(path, most, backups)
	if err != nil {
		return nil, fmt.Errorf("open the decision log: %w", err)
	}
	log := decisionlog.New(decisionlog.Options{Process: "scheduler_perf", Out: file})
	run(ctx, "decision log", func(ctx context.Context) error {
		log.Run(ctx)
		return file.Close()
	})
	return log, nil
}

// start starts the controllers, on the first call for a workload. Call it after the scheduler has
// started.
func (a *assembly) start() error {
	begin := a.controllers
	if a.controllers = nil; begin == nil {
		return nil
	}
	return begin()
}

// run runs a part of Reprieve in a goroutine until ctx is done. If the part fails, the process
// ends, because the measurement would be wrong.
func run(ctx context.Context, name string, part func(context.Context) error) {
	go func() {
		if err := part(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "A part of Reprieve failed", "part", name)
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
	}()
}

// installCRDs creates the CRDs and waits until the API server serves them.
func installCRDs(ctx context.Context, rest *restclient.Config) error {
	api, err := apiextensionsclient.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("make the client of CRDs: %w", err)
	}
	files, err := fs.Glob(crds.FS, v1alpha1.GroupName+"_*.yaml")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, crdTimeout)
	defer cancel()
	definitions := api.ApiextensionsV1().CustomResourceDefinitions()
	for _, file := range files {
		raw, err := crds.FS.ReadFile(file)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(bytes.TrimSpace(raw), &crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if _, err := definitions.Create(ctx, &crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the CRD %s: %w", crd.Name, err)
		}
		if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			now, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
			return err == nil && isEstablished(now), err
		}); err != nil {
			return fmt.Errorf("wait for the CRD %s: %w", crd.Name, err)
		}
	}
	return nil
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
