package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	goruntime "runtime"
	"slices"
	"time"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"
	zpagesfeatures "k8s.io/component-base/zpages/features"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/metrics/resources"
)

// endpointsName is the name of the server in responses. The library uses the same name.
const endpointsName = "kube-scheduler"

// shutdownTimeout is the time that requests in progress get at the shutdown.
const shutdownTimeout = 5 * time.Second

// errNotSynced is the response of /readyz until all event handlers have received the existing
// objects.
var errNotSynced = errors.New("handlers are not fully synchronized")

// serve serves HTTP on the secure port until end is called. end waits for requests in progress.
// Without a secure port, serve does nothing.
//
// The library's own server cannot be extended. serve disables it, and installs the same handlers in
// the same order. Then it installs the handlers in the map own. All handlers are behind the same
// authentication and authorization.
//
// The caller closes leading when the process becomes the leader. /livez fails while stalled returns
// an error.
func serve(
	ctx context.Context, cc *schedulerconfig.CompletedConfig, sched *kubescheduler.Scheduler, leading <-chan struct{},
	stalled func(*http.Request) error, own map[string]http.Handler,
) (end func(), err error) {
	serving := cc.SecureServing
	if serving == nil {
		return func() {}, nil
	}
	cc.SecureServing = nil
	paths := mux.NewPathRecorderMux(endpointsName)
	installHealth(ctx, paths, cc, sched, healthz.NamedCheck("progress", stalled))
	installMetrics(paths, cc, leading)
	installDebug(paths, cc)
	for path, handler := range own {
		paths.Handle(path, handler)
	}
	stop := make(chan struct{})
	stopped, _, err := serving.Serve(guarded(paths, cc), shutdownTimeout, stop)
	if err != nil {
		return nil, fmt.Errorf("serve on %s: %w", serving.Listener.Addr(), err)
	}
	return func() {
		close(stop)
		<-stopped
	}, nil
}

// guarded wraps a handler. The result authenticates and authorizes each request by the scheduler's
// options first.
func guarded(handler http.Handler, cc *schedulerconfig.CompletedConfig) http.Handler {
	requests := &apirequest.RequestInfoFactory{}
	handler = genericapifilters.WithAuthorization(handler, cc.Authorization.Authorizer, scheme.Codecs)
	handler = genericapifilters.WithAuthentication(handler, cc.Authentication.Authenticator, genericapifilters.Unauthorized(scheme.Codecs), nil, nil)
	handler = genericapifilters.WithRequestInfo(handler, requests)
	handler = genericapifilters.WithCacheControl(handler)
	handler = genericfilters.WithHTTPLogging(handler)
	return genericfilters.WithPanicRecovery(handler, requests)
}

// installHealth installs the handlers of /healthz, /livez and /readyz.
func installHealth(
	ctx context.Context, paths *mux.PathRecorderMux, cc *schedulerconfig.CompletedConfig, sched *kubescheduler.Scheduler, progress healthz.HealthChecker,
) {
	var alive []healthz.HealthChecker
	if cc.LeaderElection != nil && cc.LeaderElection.WatchDog != nil {
		alive = append(alive, cc.LeaderElection.WatchDog)
	}
	synced := make(chan struct{})
	go func() {
		if err := sched.WaitForHandlersSync(ctx); err != nil {
			klog.FromContext(ctx).V(2).Info("Ended before all handlers were synchronized", "reason", err)
			return
		}
		close(synced)
	}()
	handlers := healthz.NamedCheck("sched-handler-sync", func(*http.Request) error {
		if isClosed(synced) {
			return nil
		}
		return errNotSynced
	})
	ready := slices.Concat(alive, []healthz.HealthChecker{healthz.NewShutdownHealthz(ctx.Done()), handlers})
	healthz.InstallHandler(paths, alive...)
	healthz.InstallLivezHandler(paths, progress)
	healthz.InstallReadyzHandler(paths, ready...)
}

// installMetrics installs the handlers of the metrics and of /configz, the configuration of the
// process.
func installMetrics(paths *mux.PathRecorderMux, cc *schedulerconfig.CompletedConfig, leading <-chan struct{}) {
	configz.InstallHandler(paths)
	paths.Handle("/metrics", legacyregistry.HandlerWithReset())
	ofPods := resources.Handler(cc.InformerFactory.Core().V1().Pods().Lister())
	paths.HandleFunc("/metrics/resources", func(w http.ResponseWriter, r *http.Request) {
		// Only the leader reports the resources of pods. If each scheduler reported them, a sum
		// over the schedulers would count each pod several times.
		if isClosed(leading) {
			ofPods.ServeHTTP(w, r)
		}
	})
	slis.SLIMetricsWithReset{}.Install(paths)
}

// installDebug installs the handlers of the debug endpoints that the options and feature gates
// permit.
func installDebug(paths *mux.PathRecorderMux, cc *schedulerconfig.CompletedConfig) {
	if cc.ComponentConfig.EnableProfiling {
		routes.Profiling{}.Install(paths)
		if cc.ComponentConfig.EnableContentionProfiling {
			goruntime.SetBlockProfileRate(1)
		}
		routes.DebugFlags{}.Install(paths, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	}
	if cc.Flagz != nil && utilfeature.DefaultFeatureGate.Enabled(zpagesfeatures.ComponentFlagz) {
		flagz.Install(paths, endpointsName, cc.Flagz)
	}
	if utilfeature.DefaultFeatureGate.Enabled(zpagesfeatures.ComponentStatusz) {
		version := compatibility.DefaultBuildEffectiveVersion()
		statusz.Install(paths, endpointsName, statusz.NewRegistry(version, statusz.WithListedPaths(paths.ListedPaths())))
	}
}

// isClosed reports whether a channel is closed. The channel must be one that nothing is sent on.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
