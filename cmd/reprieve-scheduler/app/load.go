package app

import (
	"context"
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// LoadConfig reads and validates a configuration as the scheduler does. If file is empty, it
// returns the default configuration. Commands that decide like the scheduler use it.
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

// LoadRecordedConfig is LoadConfig for the recorded configuration of a scheduler, whose version may
// have accepted more.
func LoadRecordedConfig(ctx context.Context, file string) (*config.KubeSchedulerConfiguration, error) {
	opts := NewOptions()
	opts.ConfigFile = file
	cfg, err := effectiveConfig(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("%s", OneLine(err))
	}
	return cfg, nil
}
