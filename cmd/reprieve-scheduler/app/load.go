package app

import (
	"context"
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// LoadConfig reads and checks a scheduler's configuration as the scheduler does, or returns the one
// that it has by default where the name of the file is empty. It is for commands that decide as the
// scheduler would.
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

// LoadRecordedConfig is LoadConfig for what a scheduler has run with, which may be of a version
// that let more pass.
func LoadRecordedConfig(ctx context.Context, file string) (*config.KubeSchedulerConfiguration, error) {
	opts := NewOptions()
	opts.ConfigFile = file
	cfg, err := effectiveConfig(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("%s", OneLine(err))
	}
	return cfg, nil
}
