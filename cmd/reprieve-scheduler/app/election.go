package app

import (
	"fmt"
	"time"

	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
)

// retryPeriod is the default interval of the leader's renewals of its lease, and of the checks by
// others. With the library's two seconds, a released lease stays free for up to four seconds. A
// busy cluster loses more by that than by a call or two more a second.
const retryPeriod = 500 * time.Millisecond

// retrySoon has a lease that is free be taken at once, as near as that can be had, unless the
// period is configured.
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

// isRetryConfigured reports whether a flag or the file says how often the lease is looked at. Flags
// count beside a file.
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
