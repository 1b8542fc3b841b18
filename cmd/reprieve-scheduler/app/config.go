package app

import (
	_ "embed"
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// defaultConfigYAML is the configuration of a scheduler without --config.
//
//go:embed default-config.yaml
var defaultConfigYAML []byte

// defaultConfig returns the default configuration. If name is not "", it is the schedulerName of
// the only profile.
func defaultConfig(name string) (*config.KubeSchedulerConfiguration, error) {
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode(defaultConfigYAML, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the default configuration: %w", err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("decode the default configuration: it is a %T", obj)
	}
	// Set the API version, because decoding clears it and error messages of the framework contain
	// it.
	cfg.APIVersion = "kubescheduler.config.k8s.io/v1"
	if name != "" {
		cfg.Profiles[0].SchedulerName = name
	}
	return cfg, nil
}
