package app

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
)

// TestRetrySoon checks that a configured retry period is kept, and that retryPeriod replaces the
// library's default.
func TestRetrySoon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		file string
		want time.Duration
	}{
		"nothing said":               {want: retryPeriod},
		"a flag":                     {args: []string{"--leader-elect-retry-period=2s"}, want: 2 * time.Second},
		"another flag":               {args: []string{"--leader-elect-lease-duration=20s"}, want: retryPeriod},
		"a flag beside a file":       {args: []string{"--leader-elect-retry-period=2s"}, file: emptyConfig, want: 2 * time.Second},
		"a file without":             {file: emptyConfig, want: retryPeriod},
		"a file with another field":  {file: emptyConfig + "leaderElection: {leaseDuration: 20s}\n", want: retryPeriod},
		"a file with the period":     {file: emptyConfig + "leaderElection: {retryPeriod: 2s}\n", want: 2 * time.Second},
		"a file with it, being JSON": {file: `{"leaderElection": {"retryPeriod": "2s"}}`, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := optionsOf(t, "leader election", c.args, c.file)
			config := &schedulerconfig.Config{LeaderElection: &leaderelection.LeaderElectionConfig{RetryPeriod: 2 * time.Second}}
			if err := retrySoon(config, opts); err != nil {
				t.Fatal(err)
			}
			if got := config.LeaderElection.RetryPeriod; got != c.want {
				t.Errorf("The period is %v, want %v", got, c.want)
			}
		})
	}
}
