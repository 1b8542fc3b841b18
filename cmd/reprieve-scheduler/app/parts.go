package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/composite"
	"github.com/reprieve-dev/reprieve/internal/controller"
	"github.com/reprieve-dev/reprieve/internal/engine"
	"github.com/reprieve-dev/reprieve/internal/eviction"
	"github.com/reprieve-dev/reprieve/internal/gang"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inputs"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/podstatus"
	"github.com/reprieve-dev/reprieve/internal/profiles"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
	"github.com/reprieve-dev/reprieve/internal/workload"
)

// parts holds the components that Reprieve adds to a kube-scheduler.
type parts struct {
	cache       cache.Cache
	client      client.Client
	engine      *engine.Engine
	queueClient client.Client
	changed     *controller.Trigger
	recorder    events.EventRecorder
	// recorders has the event recorder of each profile, by name.
	recorders map[string]events.EventRecorder
	statuses  *podstatus.Writer
	executor  *eviction.Executor
	plugins   *scheduler.Plugins
	// native is the kind of the PodGroups of scheduling.k8s.io. workloads is the kind of the
	// Workloads of scheduling.k8s.io that pods name. Each is nil if Reprieve does not read the
	// kind.
	native, workloads *schema.GroupVersionKind
	// composites is true if the cluster serves CompositePodGroups and Reprieve may read them.
	composites bool
	// sources has the PodGroups of each API, and trees combines them into trees. source is the same
	// object as trees.
	source  gang.Source
	trees   *gang.Trees
	sources []*controller.Groups
	// derived finds the PodGroups that are derived for pods without a PodGroup. follower passes the
	// owners of pods to derived. derivedChanged reports changed groups. holdChanged reports pods
	// that wait for a group. derived and follower are nil if no profile requests derived groups.
	derived                     *grouping.Resolver
	follower                    *grouping.Follower
	derivedChanged, holdChanged *controller.Trigger
	// direct is a client without a cache, for the PodGroups of reprieve.dev and scheduling.k8s.io,
	// and for CompositePodGroups.
	direct client.Client
	// evicted requests a reconciliation of each PodGroup whose eviction has ended.
	evicted *controller.Trigger
	metrics *metrics.Metrics
	// inputs records the inputs of decisions; nil without a recorder.
	inputs *inputs.Recorder
}

// assemble creates the parts. It starts none of them.
func assemble(ctx context.Context, rest *restclient.Config, cc *schedulerconfig.CompletedConfig, measured *metrics.Metrics, decisions scheduler.DecisionLog,
	recorder *inputs.Recorder, workloads *schema.GroupVersionKind,
) (*parts, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the types of %s: %w", v1alpha1.GroupName, err)
	}
	rest = restclient.AddUserAgent(restclient.CopyConfig(rest), component)
	objects, err := cache.New(rest, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make the cache of %s: %w", v1alpha1.GroupName, err)
	}
	reading := &client.CacheOptions{Reader: objects, Unstructured: true}
	cached, err := client.New(ofOneRate(rest), client.Options{Scheme: scheme, Cache: reading})
	if err != nil {
		return nil, fmt.Errorf("make the client of %s: %w", v1alpha1.GroupName, err)
	}
	// Queues have their own client, and so their own rate limit if a rate is configured. Otherwise
	// the status updates of a thousand Queues would delay the status updates of PodGroups.
	queueClient, err := client.New(ofOneRate(rest), client.Options{Scheme: scheme, Cache: reading})
	if err != nil {
		return nil, fmt.Errorf("make the client of Queues: %w", err)
	}
	// Evictions resolve conflicts of updates, so they read objects from the API server and not from
	// the cache.
	direct, err := client.New(ofOneRate(rest), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make the client of %s: %w", v1alpha1.GroupName, err)
	}
	kind, err := findNative(ctx, rest, direct)
	if err != nil {
		return nil, err
	}
	if kind != nil {
		direct = native.NewClient(direct, *kind)
	}
	composites, err := findComposites(ctx, rest, direct)
	if err != nil {
		return nil, err
	}
	if composites {
		direct = composite.NewClient(direct)
	}
	p := &parts{composites: composites, cache: objects, client: cached, queueClient: queueClient, native: kind, workloads: workloads, direct: direct, changed: &controller.Trigger{}, evicted: &controller.Trigger{}, metrics: measured, inputs: recorder}
	p.engine = engine.New(func(key workload.Key) { p.requestStatus(gang.NameOf(key)) })
	p.recorder, p.recorders = cc.EventBroadcaster.NewRecorder(component), make(map[string]events.EventRecorder)
	for i := range cc.ComponentConfig.Profiles {
		name := cc.ComponentConfig.Profiles[i].SchedulerName
		p.recorders[name] = cc.EventBroadcaster.NewRecorder(name)
	}
	if p.statuses, err = newStatuses(ctx, cc); err != nil {
		return nil, err
	}
	if err := p.deriveGroups(rest, cc.ComponentConfig.Profiles); err != nil {
		return nil, err
	}
	if err := p.followGroups(ctx); err != nil {
		return nil, err
	}
	refused := eviction.NewRefusals(clock.RealClock{})
	p.executor = eviction.New(ctx, cc.Client, direct, p.statuses, p.recorder, clock.RealClock{},
		eviction.WithMetrics(measured), eviction.WithProfileRecorders(p.recorderOf),
		eviction.WithGroupSource(p.source), eviction.WithGroupDone(p.evicted.Request), eviction.WithMembership(p.membership()), eviction.WithRefusals(refused),
		eviction.WithMaxGracePeriod(func() time.Duration { return p.plugins.Scheduler().MaxGracePeriod() }))
	p.plugins = scheduler.NewPlugins(scheduler.Inputs{
		Derived: p.schedulerDerived(), Trees: p.trees,
		Groups: p.source, Engine: p.engine, Evictor: p.executor, Statuses: p.statuses, Metrics: measured, Decisions: decisions, Recorder: schedulerRecorder(recorder), Refused: refused,
		SchedulingGroups: p.native != nil || p.workloads != nil, Confined: profiles.Confine(cc.ComponentConfig.Profiles, cc.ComponentConfig.Extenders),
	})
	p.statuses.Annotate(p.plugins.Seals)
	return p, nil
}

// newStatuses returns the writer of pod statuses. If a rate of calls is configured, the writer has
// a rate limiter of its own, so that status updates do not delay bindings.
func newStatuses(ctx context.Context, cc *schedulerconfig.CompletedConfig) (*podstatus.Writer, error) {
	limiter := flowcontrol.NewFakeAlwaysRateLimiter()
	rest := restclient.CopyConfig(cc.KubeConfig)
	if rest.QPS > 0 {
		limiter = flowcontrol.NewTokenBucketRateLimiter(rest.QPS, rest.Burst)
	}
	// The writer waits for the limiter, so its client must not have a rate limit too.
	rest.QPS = -1
	pods, err := kubernetes.NewForConfig(restclient.AddUserAgent(rest, component))
	if err != nil {
		return nil, fmt.Errorf("make the client of pods' statuses: %w", err)
	}
	return podstatus.New(ctx, pods, cc.Client, limiter, clock.RealClock{}), nil
}

// ofOneRate returns a copy of the client configuration rest. If a rate is configured, the copy has
// one rate limiter for all calls. Without it, a client would create a rate limiter for each kind of
// object.
func ofOneRate(rest *restclient.Config) *restclient.Config {
	rest = restclient.CopyConfig(rest)
	if rest.QPS > 0 {
		rest.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(rest.QPS, rest.Burst)
	}
	return rest
}

// recorderOf returns the event recorder of a profile. For an unknown profile, it returns the
// recorder that all profiles share.
func (p *parts) recorderOf(profile string) events.EventRecorder {
	if r, ok := p.recorders[profile]; ok {
		return r
	}
	return p.recorder
}

// stalled returns an error if the scheduler no longer schedules pods. It is a health check.
func (p *parts) stalled(*http.Request) error {
	if shared := p.plugins.Scheduler(); shared != nil {
		return shared.Stalled()
	}
	return nil
}

// followGroups creates the sources of PodGroups. They pass changes to the scheduler.
func (p *parts) followGroups(ctx context.Context) error {
	handlers := controller.GroupHandlers{Changed: p.groupChanged, Saved: p.groupSaved}
	own, err := controller.NewGroups(ctx, p.cache, handlers)
	if err != nil {
		return err
	}
	p.sources = []*controller.Groups{own}
	var groups gang.Source = own
	if p.native != nil {
		theirs, err := controller.NewNativeGroups(ctx, p.cache, *p.native, handlers)
		if err != nil {
			return err
		}
		groups, p.sources = gang.Merge(own, theirs), append(p.sources, theirs)
	}
	if p.composites {
		composites, err := controller.NewComposites(ctx, p.cache, handlers)
		if err != nil {
			return err
		}
		groups, p.sources = gang.Merge(groups, composites), append(p.sources, composites)
	}
	p.trees = gang.NewTrees(groups)
	if p.derived != nil {
		p.trees.DeriveFrom(p.derived)
	}
	p.source = p.trees
	return nil
}

// groupChanged reports a new, changed or deleted group to the scheduler. It also requests a status
// update of all groups in the tree of this group.
func (p *parts) groupChanged(key types.NamespacedName) {
	workloads, moves := p.trees.Changed(key)
	if shared := p.plugins.Scheduler(); shared != nil {
		shared.PartChanged(key, workloads, moves)
	}
	for _, workload := range workloads {
		if workload != key || gang.IsTree(key) {
			p.requestStatus(workload)
		}
	}
}

// groupSaved reports to the scheduler that the eviction cost of a group has changed. It also
// reports the groups that have moved to another tree. Its call of Changed returns these moves, and
// no later call returns them again.
func (p *parts) groupSaved(key types.NamespacedName) {
	workloads, moves := p.trees.Changed(key)
	shared := p.plugins.Scheduler()
	if shared == nil {
		return
	}
	if len(moves) > 0 {
		shared.PartChanged(key, workloads, moves)
	}
	shared.GroupSaved(key)
}

// requestStatus requests a status update of a group and of the groups below it.
func (p *parts) requestStatus(key types.NamespacedName) {
	if !gang.IsTree(key) {
		p.changed.Request(key)
		return
	}
	for _, part := range p.trees.Below(key) {
		p.changed.Request(part)
	}
}

// groupsSynced waits until the caches have all existing groups and Queues. It returns false if ctx
// is done before that.
func (p *parts) groupsSynced(ctx context.Context, queuesTold toolscache.InformerSynced) bool {
	synced := p.cache.WaitForCacheSync(ctx)
	for _, groups := range p.sources {
		synced = synced && groups.WaitForSync(ctx)
	}
	return synced && toolscache.WaitForCacheSync(ctx.Done(), queuesTold)
}

// start fills the cache. When sched begins to schedule as the leader, start starts the controllers
// and closes leading.
func (p *parts) start(ctx context.Context, sched *kubescheduler.Scheduler, cc *schedulerconfig.CompletedConfig) (leading <-chan struct{}, err error) {
	logger := klog.FromContext(ctx)
	// shared is not nil, because checkProfiles rejects configurations without the plugin.
	shared := p.plugins.Scheduler()
	queuesTold, err := controller.FollowQueues(ctx, p.cache, shared)
	if err != nil {
		return nil, err
	}
	go func() {
		if err := p.cache.Start(ctx); err != nil {
			logger.Error(err, "The cache of reprieve.dev failed")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
	}()
	// The PodGroup of a pod may depend on the owners of the pod, so cache the owners first.
	if err := p.follow(ctx, shared); err != nil {
		return nil, err
	}
	// Cache the PodGroups before the first decision. Otherwise members would count as single pods.
	if !p.groupsSynced(ctx, queuesTold) {
		return nil, fmt.Errorf("fill the cache of %s: %w", v1alpha1.GroupName, context.Cause(ctx))
	}
	inputs := controller.Inputs{
		Client: p.client, QueueClient: p.queueClient, Native: p.native, Workloads: p.workloads, Profiles: sets.KeySet(sched.Profiles), Source: p.source, Trees: p.trees, Composites: p.composites,
		Cache: p.cache, Informers: cc.InformerFactory, Finished: shared.Finished(), Members: shared, Runs: shared.Runs(),
		Gangs: p.engine.Gangs, Changed: p.changed, Recorder: p.recorder, RecorderOf: p.recorderOf, Clock: clock.RealClock{}, Evicted: p.evicted,
		Ledger: shared.Quotas(), Queues: shared, OrphanedPods: p.metrics.Orphaned, QueueFigures: p.metrics.Queues, QuotaMissing: p.metrics.QuotaMissing, OldestGang: p.metrics.OldestGang,
		MalformedTolerations: p.metrics.Malformed, BadAnnotation: p.metrics.BadAnnotation, SayOfPod: p.statuses.Say, HeldPods: p.metrics.Held,
	}
	if p.derived != nil {
		inputs.Derived, inputs.DerivedChanged, inputs.HoldChanged = p.derived, p.derivedChanged, p.holdChanged
	}
	inputs.Finisher = eviction.NewFinisher(p.executor, inputs.Groups(), cc.InformerFactory.Core().V1().Pods().Lister(), shared, shared.TerminationTimeout)
	for _, profile := range sched.Profiles {
		profile.SetAPICacher(p.statuses)
	}
	go p.statuses.Run()
	leading = onceItRuns(sched, func() {
		p.awaitIntents(ctx, shared)
		shared.WaitForSync(ctx)
		if err := p.startRecorder(ctx, cc.InformerFactory, shared); err != nil {
			logger.Error(err, "The inputs of decisions are not recorded")
		}
		shared.Lead()
	})
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-leading:
		}
		err := controller.Run(ctx, inputs)
		if err != nil && ctx.Err() == nil {
			logger.Error(err, "Reprieve's controllers failed")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
	}()
	return leading, nil
}

// awaitIntents returns when planning counts the pods of all recorded preemptions as gone. An
// earlier leader records the pods of a preemption in a PodGroup before it evicts them. The cache of
// a new leader may lack the last of these records. Without these records, the new leader would
// evict the same groups again.
func (p *parts) awaitIntents(ctx context.Context, shared *scheduler.Scheduler) {
	logger := klog.FromContext(ctx)
	for {
		missing, err := p.unknownIntents(ctx, shared)
		switch {
		case err == nil && len(missing) == 0:
			return
		case err != nil:
			logger.Error(err, "Look for preemptions that were begun")
		default:
			logger.Info("Waiting for the cache to have preemptions that were begun", "podGroups", missing)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(intentsInterval):
		}
	}
}

const (
	// intentsInterval is the time between two comparisons of the cache with the API server.
	intentsInterval = 200 * time.Millisecond
	// intentsPage is the maximum number of PodGroups in the result of one list call.
	intentsPage = 500
)

// unknownIntents returns the names of PodGroups with a recorded preemption that the scheduler does
// not have cached. It reads the PodGroups from the API server.
func (p *parts) unknownIntents(ctx context.Context, shared *scheduler.Scheduler) (missing []string, err error) {
	next := ""
	for {
		var page v1alpha1.PodGroupList
		if err := p.direct.List(ctx, &page, client.Limit(intentsPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list PodGroups: %w", err)
		}
		for i := range page.Items {
			pg := &page.Items[i]
			if d := pg.Status.Disruption; d != nil && len(d.Pods) > 0 && !shared.KnowsDisruption(client.ObjectKeyFromObject(pg)) {
				missing = append(missing, client.ObjectKeyFromObject(pg).String())
			}
		}
		if next = page.Continue; next == "" {
			return missing, nil
		}
	}
}

// onceItRuns returns a channel and wraps the scheduler's queue. When the scheduler asks the queue
// for its first pod, the wrapper calls prepare and then closes the channel. The scheduler asks only
// as the leader, and after its informers have synced.
func onceItRuns(sched *kubescheduler.Scheduler, prepare func()) <-chan struct{} {
	leading := make(chan struct{})
	var once sync.Once
	next := sched.NextEntity
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		once.Do(func() {
			prepare()
			close(leading)
		})
		return next(logger)
	}
	return leading
}
