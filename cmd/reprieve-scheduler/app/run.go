package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/featuregate"
	kubemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	kubeschedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/pacing"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// component is the name of Reprieve in events and in the user agent of its clients.
const component = "reprieve-scheduler"

// upstreamLease is the lease of the cluster's own kube-scheduler. It is also the default lease of a
// KubeSchedulerConfiguration.
const upstreamLease = "kube-system/kube-scheduler"

// Run runs the scheduler until ctx is done. It returns an error if the scheduler cannot start. If a
// leading scheduler loses its lease, Run exits the process, as kube-scheduler does.
func Run(ctx context.Context, opts *Options) error {
	logger := klog.FromContext(ctx)
	ctrl.SetLogger(logr.New(logger.GetSink()))
	rest, lines, err := check(ctx, opts)
	if err != nil {
		return err
	}
	measured, err := registeredMetrics(opts)
	if err != nil {
		return err
	}
	limiter, err := newLimiter(opts, measured)
	if err != nil {
		return err
	}
	rest = paced(rest, limiter)
	cc, workloads, err := configure(ctx, opts, rest, limiter)
	if err != nil {
		return err
	}
	process, err := processName(&cc)
	if err != nil {
		return err
	}
	decisions := decisionlog.New(decisionlog.Options{
		Process: process, Out: lines, Observer: &writingObserver{logger: logger, metrics: measured, path: opts.DecisionLog.Path},
	})
	recorder, err := newRecorder(opts, process, decisions, lines, logger)
	if err != nil {
		return err
	}
	parts, err := assemble(ctx, rest, &cc, measured, decisions, recorder, workloads)
	if err != nil {
		return err
	}
	sched, err := newScheduler(ctx, opts.Options, &cc, parts.plugins)
	if err != nil {
		return err
	}
	if g, ok := utilfeature.DefaultFeatureGate.(featuregate.MutableFeatureGate); ok {
		g.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	leading, err := parts.start(ctx, sched, &cc)
	if err != nil {
		return err
	}
	taken := &snapshots{cache: sched.Cache, shared: parts.plugins.Scheduler(), process: process}
	stopServing, err := serve(ctx, &cc, sched, leading, parts.stalled, map[string]http.Handler{
		decisionsPath: latestDecisions(decisions), snapshotPath: readOnly(taken.ServeHTTP),
	})
	if err != nil {
		return err
	}
	defer stopServing()
	defer startWriting(ctx, decisions)()
	return kubeschedulerapp.Run(ctx, &cc, sched)
}

// registeredMetrics creates Reprieve's metrics and registers them in the registry of the library.
func registeredMetrics(opts *Options) (*metrics.Metrics, error) {
	if reflect.DeepEqual(opts.Metrics, kubemetrics.NewOptions()) {
		// Options without settings would only log an error.
		opts.Metrics = nil
	}
	measured := metrics.New()
	if err := measured.Register(legacyregistry.Register); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return measured, nil
}

// configure completes the configuration. If pods may name a Workload in spec.workloadRef, it also
// returns the kind of these Workloads; see readWorkloadRefs.
func configure(ctx context.Context, opts *Options, rest *restclient.Config, limiter *pacing.Limiter) (schedulerconfig.CompletedConfig, *schema.GroupVersionKind, error) {
	c, err := opts.Config(ctx)
	if err != nil {
		return schedulerconfig.CompletedConfig{}, nil, err
	}
	if err := pace(ctx, c, limiter); err != nil {
		return schedulerconfig.CompletedConfig{}, nil, err
	}
	if err := retrySoon(c, opts); err != nil {
		return schedulerconfig.CompletedConfig{}, nil, err
	}
	scheduler.AddGate(c.ComponentConfig.Profiles)
	workloads, err := readWorkloadRefs(ctx, rest, c, opts)
	if err != nil {
		return schedulerconfig.CompletedConfig{}, nil, err
	}
	cc := c.Complete()
	logger := klog.FromContext(ctx)
	warnOfUpstreamLease(logger, &cc.ComponentConfig)
	warnOfProfiles(logger, &cc.ComponentConfig)
	warnOfFlags(logger, opts)
	if limiter == nil {
		logger.Info("Calls are held to the configured rate", "qps", cc.ComponentConfig.ClientConnection.QPS, "burst", cc.ComponentConfig.ClientConnection.Burst)
	}
	return cc, workloads, nil
}

// check checks whether the scheduler can start with these options. It returns the client
// configuration for the API server, and the writer of the decision log; nil without a log.
func check(ctx context.Context, opts *Options) (*restclient.Config, io.Writer, error) {
	effective, err := effectiveConfig(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	if err := checkArguments(effective); err != nil {
		return nil, nil, fmt.Errorf("configuration %s: %w", opts.ConfigFile, err)
	}
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	if err := checkGates(utilfeature.DefaultFeatureGate); err != nil {
		return nil, nil, err
	}
	lines, err := opts.DecisionLog.open(os.Stdout)
	if err != nil {
		return nil, nil, err
	}
	rest, err := preflight(ctx, effective, opts)
	if err != nil {
		return nil, nil, err
	}
	return rest, lines, nil
}

// warnOfUpstreamLease logs a warning if the configured lease is the lease of the cluster's own
// kube-scheduler. If kube-scheduler holds this lease, Reprieve waits for it forever.
func warnOfUpstreamLease(logger klog.Logger, cfg *config.KubeSchedulerConfiguration) {
	le := cfg.LeaderElection
	if le.LeaderElect && le.ResourceNamespace+"/"+le.ResourceName == upstreamLease {
		logger.Info("Leader election uses the lease of the cluster's own kube-scheduler; "+
			"set leaderElection.resourceName unless Reprieve replaces it", "lease", upstreamLease)
	}
}

// newScheduler returns a kube-scheduler with Reprieve's plugins. It follows the function Setup of
// kube-scheduler.
func newScheduler(ctx context.Context, opts *options.Options, cc *schedulerconfig.CompletedConfig, plugins *scheduler.Plugins) (*kubescheduler.Scheduler, error) {
	var completed []config.KubeSchedulerProfile
	cfg := &cc.ComponentConfig
	sched, err := kubescheduler.New(ctx, cc.Client, cc.InformerFactory, cc.DynInformerFactory,
		func(name string) events.EventRecorderLogger { return cc.EventBroadcaster.NewRecorder(name) },
		kubescheduler.WithComponentConfigVersion(cfg.APIVersion),
		kubescheduler.WithKubeConfig(cc.KubeConfig),
		kubescheduler.WithProfiles(cfg.Profiles...),
		kubescheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		kubescheduler.WithFrameworkOutOfTreeRegistry(plugins.Registry()),
		kubescheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		kubescheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		kubescheduler.WithPodMaxInUnschedulablePodsDuration(cc.PodMaxInUnschedulablePodsDuration),
		kubescheduler.WithExtenders(cfg.Extenders...),
		kubescheduler.WithParallelism(cfg.Parallelism),
		kubescheduler.WithBuildFrameworkCapturer(func(profile config.KubeSchedulerProfile) {
			completed = append(completed, profile)
		}),
	)
	if err != nil {
		return nil, err
	}
	sched.FailureHandler = plugins.AfterFailures(sched.FailureHandler)
	if err := options.LogOrWriteConfig(klog.FromContext(ctx), opts.WriteConfigTo, cfg, completed); err != nil {
		return nil, err
	}
	return sched, nil
}
