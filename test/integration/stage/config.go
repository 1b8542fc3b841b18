package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Profile is the scheduler profile that most pods in tests use.
const Profile = "reprieve-scheduler"

// Config is a configuration of the scheduler for a test.
type Config struct {
	// LeaderElection is the value of the field leaderElection in YAML. If it is empty, leader
	// election is off.
	LeaderElection string
	// Profiles has profiles in YAML, as ProfileConfig returns them. If it is empty, the
	// configuration has only the profile Profile.
	Profiles []string
	// More has more fields of the configuration, as lines of YAML.
	More string
}

// ProfileConfig returns a profile in YAML that enables Reprieve. pluginConfig has elements of its
// field pluginConfig.
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

// Write writes the configuration to a file in dir, and returns the path of the file.
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

// SchedulerArgs returns additional arguments for a scheduler. An environment variable sets the
// verbosity of its log, to analyze failures.
func SchedulerArgs() []string {
	if v := os.Getenv("REPRIEVE_TEST_VERBOSITY"); v != "" {
		return []string{"-v=" + v}
	}
	return nil
}
