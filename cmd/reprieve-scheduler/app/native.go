package app

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/native"
)

// findNative returns the kind of the PodGroups of scheduling.k8s.io. It returns nil if the cluster
// does not serve the kind, or Reprieve has no permission to read it.
func findNative(ctx context.Context, rest *restclient.Config, direct client.Client) (*schema.GroupVersionKind, error) {
	logger := klog.FromContext(ctx)
	discoverer, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	kind, err := native.Discover(discoverer)
	if errors.Is(err, native.ErrNotServed) {
		return nil, nil //nolint:nilnil // That there is none is no error.
	}
	if err != nil {
		return nil, fmt.Errorf("look for PodGroups of %s: %w", native.Group, err)
	}
	readable, err := mayRead(ctx, direct, kind)
	switch {
	case err != nil:
		return nil, err
	case !readable:
		logger.Info("The cluster serves PodGroups that Reprieve may not read; pods that name one in spec.schedulingGroup will wait. "+
			"The rights are in deploy/components/native-workload-api", "apiVersion", kind.GroupVersion())
		return nil, nil //nolint:nilnil // As above.
	}
	logger.Info("Reading the cluster's own PodGroups as well", "apiVersion", kind.GroupVersion())
	return &kind, nil
}

// mayRead reports whether Reprieve has the permission to list objects of a kind.
func mayRead(ctx context.Context, direct client.Client, kind schema.GroupVersionKind) (bool, error) {
	probe := &unstructured.UnstructuredList{}
	probe.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := direct.List(ctx, probe, client.Limit(1))
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list %ss of %s: %w", kind.Kind, kind.GroupVersion(), err)
	}
	return true, nil
}

// readWorkloadRefs makes Reprieve read spec.workloadRef of pods (Kubernetes 1.35), which names a
// group of a Workload. It returns the kind of the Workloads. It returns nil if the cluster does not
// serve the kind, or Reprieve has no permission to read it.
func readWorkloadRefs(ctx context.Context, rest *restclient.Config, c *schedulerconfig.Config, opts *Options) (*schema.GroupVersionKind, error) {
	logger := klog.FromContext(ctx)
	discoverer, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client: %w", err)
	}
	kind, err := native.DiscoverWorkloads(discoverer)
	if errors.Is(err, native.ErrNotServed) {
		return nil, nil //nolint:nilnil // That there is none is no error.
	}
	if err != nil {
		return nil, fmt.Errorf("look for Workloads of %s: %w", native.Group, err)
	}
	direct, err := client.New(rest, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make the client of %s: %w", native.Group, err)
	}
	readable, err := mayRead(ctx, direct, kind)
	switch {
	case err != nil:
		return nil, err
	case !readable:
		logger.Info("The cluster serves Workloads that Reprieve may not read; spec.workloadRef of pods counts for nothing. "+
			"The rights are in deploy/components/native-workload-api", "apiVersion", kind.GroupVersion())
		return nil, nil //nolint:nilnil // As above.
	}
	json := restclient.CopyConfig(c.KubeConfig)
	json.ContentType, json.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	pods, err := dynamic.NewForConfig(json)
	if err != nil {
		return nil, fmt.Errorf("make the client of pods: %w", err)
	}
	c.Client = native.NewClientset(c.Client, pods)
	c.InformerFactory = kubescheduler.NewInformerFactory(c.Client, 0, opts.InformerName)
	logger.Info("Making PodGroups for the cluster's own Workloads", "apiVersion", kind.GroupVersion())
	return &kind, nil
}
