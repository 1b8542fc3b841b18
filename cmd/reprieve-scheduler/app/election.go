package app

import (
	"fmt"
	"time"

	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
)

// retryPeriod is the default time between two renewals of the leader's lease, and between two
// attempts of a standby to acquire it. The library's default is two seconds, which leaves a
// released lease free for up to four seconds. In a busy cluster, such a pause costs more than one
// or two additional calls per second.
const retryPeriod = 500 * time.Millisecond

// retrySoon sets the retry period of leader election to retryPeriod, so that a free lease is
// acquired almost at once. It leaves a configured period unchanged.
func retrySoon(c *schedulerconfig.Config, opts *Options) error {
	if c.LeaderElection == nil {
		return nil
	}
	configured, err := isRetryConfigured(opts)
	if err != nil {
		return fmt.Errorf("configuration %s: %w", opts.ConfigFile, err)
	}
	if !configured {
		c.LeaderElection.RetryPeriod = retryPeriod
		c.ComponentConfig.LeaderElection.RetryPeriod.Duration = retryPeriod
	}
	return nil
}

// isRetryConfigured reports whether a flag or the configuration file sets the retry period of
// leader election. The flag applies even if there is a configuration file.
func isRetryConfigured(opts *Options) (bool, error) {
	if f := opts.Flags.FlagSet("leader election").Lookup("leader-elect-retry-period"); f != nil && f.Changed {
		return true, nil
	}
	var file struct {
		LeaderElection struct {
			RetryPeriod *string `json:"retryPeriod"`
		} `json:"leaderElection"`
	}
	err := opts.readWritten(&file)
	return file.LeaderElection.RetryPeriod != nil, err
}
