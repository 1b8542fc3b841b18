package app

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// served is the discovery of an API server that serves the resources names of resource.k8s.io/v1.
type served struct {
	discovery.ServerResourcesInterface
	names []string
	err   error
}

func (s served) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{}
	for _, name := range s.names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, s.err
}

func TestFitGates(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	cases := map[string]struct {
		client  served
		before  map[string]bool
		want    bool
		wantErr error
	}{
		"as of 1.37":               {client: served{names: []string{"deviceclasses", "devicetaintrules"}}, want: true},
		"before":                   {client: served{names: []string{"deviceclasses"}}},
		"the group is not there":   {client: served{err: apierrors.NewNotFound(schema.GroupResource{}, "")}},
		"off already":              {client: served{err: broken}, before: map[string]bool{"DRADeviceTaintRules": false}},
		"of no use":                {client: served{err: broken}, before: map[string]bool{"DynamicResourceAllocation": false}, want: true},
		"it cannot be asked about": {client: served{err: broken}, want: true, wantErr: broken},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gates := featuregate.NewFeatureGate()
			if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
				features.DynamicResourceAllocation: {Default: true, PreRelease: featuregate.Beta},
				features.DRADeviceTaintRules:       {Default: true, PreRelease: featuregate.Beta},
			}); err != nil {
				t.Fatal(err)
			}
			if err := gates.SetFromMap(c.before); err != nil {
				t.Fatal(err)
			}
			if err := fitGates(klog.Background(), c.client, gates); !errors.Is(err, c.wantErr) {
				t.Errorf("error %v, want %v", err, c.wantErr)
			}
			if got := gates.Enabled(features.DRADeviceTaintRules); got != c.want {
				t.Errorf("the feature is on: %t, want %t", got, c.want)
			}
		})
	}
}
