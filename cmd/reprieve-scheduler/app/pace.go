package app

import (
	"context"
	"fmt"
	"os"
	"slices"

	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/internal/metrics"
	"github.com/reprieve-dev/reprieve/internal/pacing"
)

// newLimiter returns a limiter of concurrent API calls. It returns nil if the flags or the
// configuration file set a rate of calls, because the rate then limits the calls.
func newLimiter(opts *Options, measured *metrics.Metrics) (*pacing.Limiter, error) {
	configured, err := isRateConfigured(opts)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", opts.ConfigFile, err)
	}
	if configured {
		return nil, nil
	}
	return pacing.New(clock.RealClock{}, pacing.WithBoundTold(measured.CallsBounded)), nil
}

// rateFlags returns the names of the flags that limit the API calls per second.
func rateFlags() []string { return []string{"kube-api-qps", "kube-api-burst"} }

// isChanged reports whether one of the library's deprecated flags is set on the command line.
func (o *Options) isChanged(name string) bool {
	f := o.Flags.FlagSet("deprecated").Lookup(name)
	return f != nil && f.Changed
}

// saysRate reports whether one of rateFlags is set to a value other than 0. 0 counts as not set, as
// in the configuration file.
func (o *Options) saysRate(name string) bool {
	return o.isChanged(name) && o.Flags.FlagSet("deprecated").Lookup(name).Value.String() != "0"
}

// isRateConfigured reports whether flags or the configuration file set a rate of API calls. It
// reads the file itself: in the library's result, an absent rate and a rate of 0 have become the
// default rate.
func isRateConfigured(opts *Options) (bool, error) {
	if opts.ConfigFile == "" {
		return slices.ContainsFunc(rateFlags(), opts.saysRate), nil
	}
	var file struct {
		ClientConnection struct {
			QPS   float32 `json:"qps"`
			Burst int32   `json:"burst"`
		} `json:"clientConnection"`
	}
	err := opts.readWritten(&file)
	return file.ClientConnection.QPS != 0 || file.ClientConnection.Burst != 0, err
}

// readWritten decodes the configuration file into a value, without defaults. Without a
// configuration file, it leaves the value unchanged.
func (o *Options) readWritten(into any) error {
	if o.ConfigFile == "" {
		return nil
	}
	data, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}

// paced returns a copy of rest whose clients wait for the limiter and have no rate limit. If the
// limiter is nil, it returns rest.
func paced(rest *restclient.Config, limiter *pacing.Limiter) *restclient.Config {
	if limiter == nil {
		return rest
	}
	return limiter.Config(rest)
}

// pace replaces the scheduler's clients with clients that wait for the limiter. It does not replace
// the clients of informers and of the lease, because these make few calls. If the limiter is nil,
// it does nothing.
func pace(ctx context.Context, c *schedulerconfig.Config, limiter *pacing.Limiter) error {
	if limiter == nil {
		return nil
	}
	c.KubeConfig = paced(c.KubeConfig, limiter)
	var err error
	if c.Client, err = kubernetes.NewForConfig(restclient.AddUserAgent(restclient.CopyConfig(c.KubeConfig), "scheduler")); err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	eventClient, err := kubernetes.NewForConfig(c.KubeConfig)
	if err != nil {
		return fmt.Errorf("make the client of events: %w", err)
	}
	c.EventBroadcaster = events.NewEventBroadcasterAdapterWithContext(ctx, eventClient)
	if c.LeaderElection == nil {
		return nil
	}
	// pace has replaced the event broadcaster, and the old broadcaster is never started. So the
	// lock of the lease must use the new broadcaster. Otherwise its events would be lost.
	if lock, ok := c.LeaderElection.Lock.(*resourcelock.LeaseLock); ok {
		lock.LockConfig.EventRecorder = c.EventBroadcaster.DeprecatedNewLegacyRecorder(c.ComponentConfig.Profiles[0].SchedulerName)
	}
	return nil
}
