package app

import (
	"context"
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// LoadConfig reads and validates a configuration file as the scheduler does. If file is "", it
// returns the default configuration. Commands that repeat the scheduler's decisions use it.
func LoadConfig(ctx context.Context, file string) (*config.KubeSchedulerConfiguration, error) {
	cfg, err := LoadRecordedConfig(ctx, file)
	if err != nil || file == "" {
		return cfg, err
	}
	if err := checkArguments(cfg); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", file, err)
	}
	return cfg, nil
}

// LoadRecordedConfig reads a configuration that a decision log has recorded. Unlike LoadConfig, it
// does not check the arguments, because the recording scheduler may have been a version that
// accepts more of them.
func LoadRecordedConfig(ctx context.Context, file string) (*config.KubeSchedulerConfiguration, error) {
	opts := NewOptions()
	opts.ConfigFile = file
	cfg, err := effectiveConfig(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("%s", OneLine(err))
	}
	return cfg, nil
}
