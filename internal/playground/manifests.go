package playground

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// fieldManager is the field manager of objects that the playground applies.
const fieldManager = "playground"

// crdGroup and crdKind are the API group and kind of CustomResourceDefinitions, which are applied
// first.
const (
	crdGroup = "apiextensions.k8s.io"
	crdKind  = "CustomResourceDefinition"
)

// readManifests returns every object in the .yaml files of fsys, in the order of the files' paths.
// It skips Kustomization files, because they are not API objects.
func readManifests(fsys fs.FS) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		raw, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		found, err := decodeManifest(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, found...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	return objects, nil
}

func decodeManifest(raw []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) == 0 || object.GetKind() == "Kustomization" {
			continue
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "" {
			return nil, errors.New("a document without apiVersion, kind or metadata.name")
		}
		objects = append(objects, object)
	}
}

// applyManifests applies all objects of fsys to the API server and returns the number of objects.
// It waits until the CRDs among them are served.
func (p *Playground) applyManifests(ctx context.Context, fsys fs.FS) (int, error) {
	objects, err := readManifests(fsys)
	if err != nil || len(objects) == 0 {
		return 0, err
	}
	client, err := dynamic.NewForConfig(p.RESTConfig())
	if err != nil {
		return 0, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.client.Discovery()))
	var crds, others []*unstructured.Unstructured
	for _, object := range objects {
		if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: crdGroup, Kind: crdKind}) {
			crds = append(crds, object)
		} else {
			others = append(others, object)
		}
	}
	for _, crd := range crds {
		if err := applyObject(ctx, client, mapper, crd); err != nil {
			return 0, err
		}
	}
	for _, crd := range crds {
		if err := waitServed(ctx, client, mapper, crd); err != nil {
			return 0, err
		}
	}
	for _, object := range others {
		if err := applyObject(ctx, client, mapper, object); err != nil {
			return 0, err
		}
	}
	return len(objects), nil
}

func applyObject(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
	}
	resource := client.Resource(mapping.Resource)
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		_, err = resource.Namespace(namespace).Apply(ctx, object.GetName(), object, options)
	} else {
		_, err = resource.Apply(ctx, object.GetName(), object, options)
	}
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
	}
	return nil
}

// waitServed waits until a CRD is established and discovery lists its kind, which happens later.
// Before that, the client cannot map the kind to its resource.
func waitServed(ctx context.Context, client dynamic.Interface, mapper meta.ResettableRESTMapper, crd *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	kind := crd.GroupVersionKind()
	resource := client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "customresourcedefinitions"})
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		current, err := resource.Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil || !hasTrueCondition(current, "Established") {
			return false, err
		}
		return isDiscovered(mapper, current)
	})
	if err != nil {
		return fmt.Errorf("wait for the CRD %s to be served: %w", crd.GetName(), err)
	}
	return nil
}

// isDiscovered reports whether discovery lists the kind of a CRD in every version that the CRD
// serves. It sends a new request each time.
func isDiscovered(mapper meta.ResettableRESTMapper, crd *unstructured.Unstructured) (bool, error) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return false, err
	}
	mapper.Reset()
	for _, entry := range versions {
		version, ok := entry.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		_, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind}, name)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

func hasTrueCondition(object *unstructured.Unstructured, conditionType string) bool {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if ok && condition["type"] == conditionType && condition["status"] == string(metav1.ConditionTrue) {
			return true
		}
	}
	return false
}
