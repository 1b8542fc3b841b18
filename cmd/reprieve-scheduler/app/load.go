package app

import (
	"context"
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// LoadConfig reads and checks a scheduler's configuration as the scheduler does, or returns the one that it has by default where
// the name of the file is empty. It is for commands that decide as the scheduler would.
func LoadConfig(ctx context.Context, file string) (*config.KubeSchedulerConfiguration, error) {
	opts := NewOptions()
	opts.ConfigFile = file
	cfg, err := effectiveConfig(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("%s", OneLine(err))
	}
	return cfg, nil
}
