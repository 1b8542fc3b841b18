package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// reachTimeout is the maximum time that the scheduler waits for the API server at its start.
const reachTimeout = 15 * time.Second

// effectiveConfig returns the validated configuration: the file that the options name, or the
// default configuration. It also stores the result in opts.ComponentConfig.
func effectiveConfig(ctx context.Context, opts *Options) (*config.KubeSchedulerConfiguration, error) {
	if opts.ConfigFile == "" {
		cfg, err := defaultConfig(opts.SchedulerName)
		if err != nil {
			return nil, err
		}
		opts.ComponentConfig = cfg
		opts.ApplyDeprecated()
		return cfg, nil
	}
	if opts.SchedulerName != "" {
		return nil, fmt.Errorf("--scheduler-name renames the default profile; with --config, name the profile in %s", opts.ConfigFile)
	}
	cfg, err := options.LoadConfigFromFile(klog.FromContext(ctx), opts.ConfigFile)
	if runtime.IsNotRegisteredError(err) {
		// Replace the library's error, which names a line of its source code.
		return nil, fmt.Errorf("configuration %s: it is not a KubeSchedulerConfiguration of %s", opts.ConfigFile, configv1.SchemeGroupVersion)
	}
	if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) {
		// Replace the library's error, which contains the whole file.
		return nil, fmt.Errorf("configuration %s: it does not say what it is; begin with the lines apiVersion: %s and kind: KubeSchedulerConfiguration",
			opts.ConfigFile, configv1.SchemeGroupVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", opts.ConfigFile, err)
	}
	// Run Reprieve's checks before the library's validation, whose errors print whole profiles.
	for _, check := range []func(*config.KubeSchedulerConfiguration) error{checkStandby, checkNames, checkProfiles} {
		if err := check(cfg); err != nil {
			return nil, fmt.Errorf("configuration %s: %w", opts.ConfigFile, err)
		}
	}
	if errs := validation.ValidateKubeSchedulerConfiguration(cfg); errs != nil {
		// Make one line of several errors, so that the prefix with the file name applies to all.
		return nil, fmt.Errorf("configuration %s: %s", opts.ConfigFile, OneLine(errs))
	}
	opts.ComponentConfig = cfg
	return cfg, nil
}

// checkStandby rejects delayCacheUntilActive. With this field, a standby scheduler would not watch
// the cluster, and could not take over at once.
func checkStandby(cfg *config.KubeSchedulerConfiguration) error {
	if cfg.DelayCacheUntilActive {
		return errors.New("delayCacheUntilActive: one that stands by follows the cluster, so that it can take over at once; leave it out")
	}
	return nil
}

// preflight checks that the API server answers and serves Reprieve's CustomResourceDefinitions. It
// returns the configuration for clients of the API server. It also disables feature gates that the
// API server does not support. Call it before anything is started.
func preflight(ctx context.Context, cfg *config.KubeSchedulerConfiguration, opts *Options) (*restclient.Config, error) {
	if err := needKubeconfig(cfg.ClientConnection.Kubeconfig, opts); err != nil {
		return nil, err
	}
	rest, err := clientcmd.BuildConfigFromFlags(opts.Master, cfg.ClientConnection.Kubeconfig)
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("kubeconfig %s: it names no cluster", cfg.ClientConnection.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	rest.QPS, rest.Burst = cfg.ClientConnection.QPS, int(cfg.ClientConnection.Burst)
	probe := restclient.CopyConfig(rest)
	probe.Timeout = reachTimeout
	client, err := discovery.NewDiscoveryClientForConfig(probe)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	var missing []string
	var last error
	err = wait.PollUntilContextTimeout(ctx, time.Second, reachTimeout, true, func(context.Context) (bool, error) {
		missing, last = missingCRDs(client)
		return last == nil || apierrors.IsUnauthorized(last) || apierrors.IsForbidden(last), nil
	})
	switch {
	case last != nil:
		return nil, fmt.Errorf("cannot reach the API server at %s: %w", rest.Host, last)
	case err != nil:
		return nil, fmt.Errorf("reach the API server at %s: %w", rest.Host, err)
	case len(missing) > 0:
		return nil, fmt.Errorf("the cluster lacks the CustomResourceDefinitions %s; install them with: kubectl apply -k deploy/crds",
			strings.Join(missing, ", "))
	}
	if err := fitGates(klog.FromContext(ctx), client, utilfeature.DefaultMutableFeatureGate); err != nil {
		return nil, err
	}
	return rest, nil
}

// needKubeconfig returns an error if no option, variable or service account names an API server.
// The error names the option to set; the library's own error only mentions environment variables.
func needKubeconfig(kubeconfig string, opts *Options) error {
	if kubeconfig != "" || opts.Master != "" || os.Getenv("KUBERNETES_MASTER") != "" {
		return nil
	}
	if _, err := restclient.InClusterConfig(); errors.Is(err, restclient.ErrNotInCluster) {
		if flag := opts.Deprecated.Kubeconfig; flag != "" {
			// kube-scheduler ignores --kubeconfig if there is a configuration file, and so does
			// this command.
			return fmt.Errorf("no kubeconfig: --kubeconfig is not read beside --config; write clientConnection: {kubeconfig: %s} in %s", flag, opts.ConfigFile)
		}
		return errors.New("no kubeconfig: outside a Pod the scheduler needs --kubeconfig, or clientConnection.kubeconfig in the file of --config")
	}
	return nil
}

// missingCRDs returns the names of Reprieve's CustomResourceDefinitions that the API server does
// not serve.
func missingCRDs(client discovery.ServerResourcesInterface) ([]string, error) {
	needed := []string{"podgroups", "queues", "workloads"}
	served, err := client.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	var missing []string
	for _, name := range needed {
		if served == nil || !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
			missing = append(missing, name+"."+v1alpha1.GroupName)
		}
	}
	return missing, nil
}
