package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Profile is the default profile of pods in tests.
const Profile = "reprieve-scheduler"

// Config is a configuration of the scheduler.
type Config struct {
	// LeaderElection is the field with that name. If it is empty, leader election is off.
	LeaderElection string
	// Profiles are results of ProfileConfig. If there are none, the configuration has Profile.
	Profiles []string
	// More has further fields, as lines.
	More string
}

// ProfileConfig returns a profile with Reprieve, and entries of its pluginConfig.
func ProfileConfig(name string, pluginConfig ...string) string {
	text := `- schedulerName: ` + name + `
  plugins:
    multiPoint:
      enabled: [{name: Reprieve}]
      disabled: [{name: DefaultPreemption}]
    queueSort:
      enabled: [{name: ReprievePrioritySort}]
      disabled: [{name: PrioritySort}]
    preFilter:
      enabled: [{name: Reprieve}]
`
	if len(pluginConfig) > 0 {
		text += "  pluginConfig:\n  - " + strings.Join(pluginConfig, "\n  - ") + "\n"
	}
	return text
}

// Write writes the configuration to a file in a directory, and returns its path.
func (c Config) Write(dir string) (string, error) {
	election, profiles := c.LeaderElection, c.Profiles
	if election == "" {
		election = "{leaderElect: false}"
	}
	if len(profiles) == 0 {
		profiles = []string{ProfileConfig(Profile)}
	}
	text := `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: ` + election + `
profiles:
` + strings.Join(profiles, "") + c.More
	path := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	return path, nil
}

// SchedulerArgs returns further arguments for a scheduler, to analyze a failure.
func SchedulerArgs() []string {
	if v := os.Getenv("REPRIEVE_TEST_VERBOSITY"); v != "" {
		return []string{"-v=" + v}
	}
	return nil
}
