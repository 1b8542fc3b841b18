package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

const (
	// installed is the name of the Deployment and the ServiceAccount of the scheduler in deploy/.
	installed, installedIn = "reprieve-scheduler", "reprieve-system"
	configKey              = "scheduler.yaml"
)

// Install applies the manifests of deploy/, as kubectl apply -k does. It returns the options of a
// scheduler with the configuration, the arguments and the rights of this installation. args has
// additional arguments of the plugin Reprieve. Install writes files to dir.
func (s *Stage) Install(ctx context.Context, dir string, args map[string]any) (playground.SchedulerOptions, error) {
	s.Helper()
	root, err := filepath.Abs(filepath.Join(playgroundtest.ModuleRoot(s), "deploy"))
	if err != nil {
		return playground.SchedulerOptions{}, err
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), root)
	if err != nil {
		return playground.SchedulerOptions{}, fmt.Errorf("render %s: %w", root, err)
	}
	text, err := rendered.AsYaml()
	if err != nil {
		return playground.SchedulerOptions{}, fmt.Errorf("render %s: %w", root, err)
	}
	if err := s.Run.Apply(ctx, fstest.MapFS{"deploy.yaml": {Data: text}}); err != nil {
		return playground.SchedulerOptions{}, fmt.Errorf("install deploy/: %w", err)
	}
	options := playground.SchedulerOptions{Kubeconfig: filepath.Join(dir, "installed.kubeconfig"), Config: filepath.Join(dir, configKey)}
	token, err := s.Kube.CoreV1().ServiceAccounts(installedIn).CreateToken(ctx, installed, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return options, fmt.Errorf("request a token for the scheduler: %w", err)
	}
	if err := s.Run.WriteKubeconfig(options.Kubeconfig, token.Status.Token); err != nil {
		return options, err
	}
	if err := writeInstalledConfig(rendered, options.Config, args); err != nil {
		return options, err
	}
	options.Args, err = installedArgs(rendered)
	options.Args = append(options.Args, SchedulerArgs()...)
	return options, err
}

// writeInstalledConfig writes the scheduler configuration of an installation to a file, with
// additional arguments of the plugin Reprieve.
func writeInstalledConfig(rendered resmap.ResMap, path string, args map[string]any) error {
	var config corev1.ConfigMap
	if err := find(rendered, "ConfigMap", &config); err != nil {
		return err
	}
	var document map[string]any
	if err := yaml.Unmarshal([]byte(config.Data[configKey]), &document); err != nil {
		return fmt.Errorf("the configuration of deploy/: %w", err)
	}
	plugin, err := pluginArgs(document)
	if err != nil {
		return err
	}
	for key, value := range args {
		plugin[key] = value
	}
	raw, err := yaml.Marshal(document)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}

// pluginArgs returns the arguments of the plugin Reprieve in a scheduler configuration with one
// profile.
func pluginArgs(document map[string]any) (map[string]any, error) {
	profiles, _ := document["profiles"].([]any)
	if len(profiles) != 1 {
		return nil, fmt.Errorf("the configuration of deploy/ has %d profiles, want 1", len(profiles))
	}
	profile, _ := profiles[0].(map[string]any)
	configs, _ := profile["pluginConfig"].([]any)
	for _, entry := range configs {
		config, _ := entry.(map[string]any)
		if args, ok := config["args"].(map[string]any); ok && config["name"] == "Reprieve" {
			return args, nil
		}
	}
	return nil, errors.New("the configuration of deploy/ has no arguments of the plugin Reprieve")
}

// installedArgs returns the arguments of the scheduler in its Deployment, without the arguments
// that are valid only in a Pod.
func installedArgs(rendered resmap.ResMap) ([]string, error) {
	var deployment appsv1.Deployment
	if err := find(rendered, "Deployment", &deployment); err != nil {
		return nil, err
	}
	containers := deployment.Spec.Template.Spec.Containers
	if len(containers) != 1 {
		return nil, fmt.Errorf("the Deployment has %d containers, want 1", len(containers))
	}
	return slices.DeleteFunc(slices.Clone(containers[0].Args), func(arg string) bool {
		return strings.HasPrefix(arg, "--config=") || strings.HasPrefix(arg, "--secure-port=")
	}), nil
}

// find decodes the only object of a kind.
func find(rendered resmap.ResMap, kind string, into any) error {
	count := 0
	for _, object := range rendered.Resources() {
		if object.GetKind() != kind {
			continue
		}
		count++
		raw, err := object.AsYAML()
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("the %s in deploy/: %w", kind, err)
		}
	}
	if count != 1 {
		return fmt.Errorf("deploy/ has %d objects of the kind %s, want 1", count, kind)
	}
	return nil
}
