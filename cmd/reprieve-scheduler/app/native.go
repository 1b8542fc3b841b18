package app

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/internal/native"
)

// findNative returns the kind of the PodGroups of scheduling.k8s.io; nil where the cluster serves none, or does
// not let Reprieve read them.
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
	probe := &unstructured.UnstructuredList{}
	probe.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = direct.List(ctx, probe, client.Limit(1))
	switch {
	case apierrors.IsForbidden(err):
		logger.Info("The cluster serves PodGroups that Reprieve may not read; pods that name one in spec.schedulingGroup will wait. "+
			"The rights are in deploy/components/native-workload-api", "apiVersion", kind.GroupVersion())
		return nil, nil //nolint:nilnil // As above.
	case err != nil:
		return nil, fmt.Errorf("list PodGroups of %s: %w", kind.GroupVersion(), err)
	}
	logger.Info("Reading the cluster's own PodGroups as well", "apiVersion", kind.GroupVersion())
	return &kind, nil
}
