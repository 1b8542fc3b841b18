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

// newLimiter returns the limiter of calls if no rate is configured, and nil otherwise.
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

// rateFlags are the flags that say how many calls a second may be made.
func rateFlags() []string { return []string{"kube-api-qps", "kube-api-burst"} }

// isChanged reports whether somebody has set a flag of the library's deprecated ones.
func (o *Options) isChanged(name string) bool {
	f := o.Flags.FlagSet("deprecated").Lookup(name)
	return f != nil && f.Changed
}

// saysRate reports whether somebody has set a flag of the rate to anything but 0, which is nothing
// said, as it is in a file.
func (o *Options) saysRate(name string) bool {
	return o.isChanged(name) && o.Flags.FlagSet("deprecated").Lookup(name).Value.String() != "0"
}

// isRateConfigured reports whether somebody has said how many calls a second may be made. The
// library has a default for where that is left open, which cannot be told from the same number in a
// file, and for 0.
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

// readWritten reads the configuration file without defaults. It reads nothing if there is no file.
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

// paced is for clients that go by a limiter in place of a rate, and unchanged where there is none.
func paced(rest *restclient.Config, limiter *pacing.Limiter) *restclient.Config {
	if limiter == nil {
		return rest
	}
	return limiter.Config(rest)
}

// pace makes all calls of the scheduler wait for a limiter. The calls of informers and for the
// lease are few and do not wait.
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
	// The events of the lock use the broadcaster that is started.
	if lock, ok := c.LeaderElection.Lock.(*resourcelock.LeaseLock); ok {
		lock.LockConfig.EventRecorder = c.EventBroadcaster.DeprecatedNewLegacyRecorder(c.ComponentConfig.Profiles[0].SchedulerName)
	}
	return nil
}
