package eviction

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
)

// TestIntentOfAChangingGroup checks the eviction of a group whose owner changes the PodGroup before
// each write of the intent, so that every update has a conflict. The group must be evicted
// nevertheless. The intent must not replace a status that has changed since it was read.
func TestIntentOfAChangingGroup(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(v1alpha1.Resource("podgroups"), "g", errors.New("the object has been modified"))
	for what, tc := range map[string]struct {
		// status is a patch that another writer applies before the first write.
		status      string
		wantRunning int32
		wantUpdates int
	}{
		"its annotations":            {wantUpdates: 1},
		"its annotations and status": {status: `{"status":{"running":7}}`, wantRunning: 7, wantUpdates: 2},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, append(whole("g"), pod("urgent-0"))...)
			key := client.ObjectKey{Namespace: "ns", Name: "g"}
			var changed atomic.Bool
			b.fail = func(call string) error {
				if call != "list g" {
					return nil
				}
				if tc.status != "" && changed.CompareAndSwap(false, true) {
					pg := &v1alpha1.PodGroup{}
					pg.Namespace, pg.Name = key.Namespace, key.Name
					if err := b.groups.Status().Patch(t.Context(), pg, client.RawPatch(types.MergePatchType, []byte(tc.status))); err != nil {
						t.Error(err)
					}
				}
				return conflict
			}
			if got := b.evict(order(victim("g", "g-0", "g-1"))); got.Err != nil {
				t.Errorf("It came to %+v", got)
			}
			b.expectPods("urgent-0")
			if got := len(b.listed("g")); got != 2 {
				t.Errorf("The intent has %d pods, want 2", got)
			}
			if got := len(b.made("list")); got != tc.wantUpdates {
				t.Errorf("There were %d updates, want %d", got, tc.wantUpdates)
			}
			var pg v1alpha1.PodGroup
			if err := b.groups.Get(t.Context(), key, &pg); err != nil {
				t.Fatal(err)
			}
			if pg.Status.Running != tc.wantRunning {
				t.Errorf("The status has %d running members, want %d", pg.Status.Running, tc.wantRunning)
			}
		})
	}
}

// TestStatusAsStored checks that asStored adds exactly the default values of the CRDs. Otherwise the
// API server rejects each patch that compares the status.
func TestStatusAsStored(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"reprieve.dev_podgroups.yaml", "reprieve.dev_compositepodgroups.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", "crds", file))
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			want := make(map[string]string)
			schema := version.Schema.OpenAPIV3Schema.Properties["status"]
			defaultsIn(&schema, "", want)
			stored, err := asStored(&v1alpha1.PodGroupStatus{})
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for name, value := range stored {
				got["."+name] = string(value)
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: the default values are %v, want %v", file, got, want)
			}
		}
	}
	stored, err := asStored(&v1alpha1.PodGroupStatus{Phase: v1alpha1.PodGroupRunning, Running: 2, Scheduled: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%s", stored), `map[finished:0 pending:0 phase:"Running" running:2 scheduled:2 terminating:0]`; got != want {
		t.Errorf("The status is stored as %s, want %s", got, want)
	}
}

// defaultsIn adds the default values of a schema to out, by the path of the field.
func defaultsIn(schema *apiextensionsv1.JSONSchemaProps, path string, out map[string]string) {
	if schema.Default != nil {
		out[path] = string(schema.Default.Raw)
	}
	for name := range schema.Properties {
		property := schema.Properties[name]
		defaultsIn(&property, path+"."+name, out)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		defaultsIn(schema.Items.Schema, path+"[]", out)
	}
}
