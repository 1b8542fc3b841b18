package grouping

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// bound is how long anything may take on a machine that is busy with other things.
const bound = time.Minute

// served is an API server's discovery, by group and version.
type served map[string][]metav1.APIResource

func (s served) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	if list, ok := s[gv]; ok {
		return &metav1.APIResourceList{GroupVersion: gv, APIResources: list}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
}

func (s served) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, nil, nil
}
func (s served) ServerPreferredResources() ([]*metav1.APIResourceList, error) { return nil, nil }
func (s served) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return nil, nil
}

// TestFollower: what can be read is known once it has started; a kind that is not served, and one that may not be read, do not
// keep it from starting, and their pods hear why they wait.
func TestFollower(t *testing.T) {
	t.Parallel()
	resource := func(kind string) schema.GroupVersionResource {
		rule := BuiltIn()[kind]
		return rule.Kind.GroupVersion().WithResource(rule.Resource)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns"}}}
	job := objectFrom(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: ns, name: train, uid: Job/train, annotations: {"+gangOn+"}}\nspec: {parallelism: 3}\n")
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "namespaces"}: "NamespaceList", resource("Job"): "JobList", resource("RayJob"): "RayJobList", resource("RayCluster"): "RayClusterList",
	}, namespace, job)
	client.PrependReactor("list", "rayjobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(resource("RayJob").GroupResource(), "", nil)
	})
	w := newWorld(t, false, "Job", "RayJob", "LeaderWorkerSet")
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	f := NewFollower(w.Resolver, client, served{
		"batch/v1":  {{Name: "jobs", Kind: "Job"}},
		"ray.io/v1": {{Name: "rayclusters", Kind: "RayCluster"}, {Name: "rayjobs", Kind: "RayJob"}},
	})
	if err := f.Start(ctx); err != nil {
		t.Fatal(err)
	}
	member := w.pod("member", "Job/train")
	if got := w.group(member); got != "train" {
		t.Errorf("its group is %q", got)
	}
	key, _ := w.GroupOf(member)
	if g, _ := w.Group(key); g.MinCount != 3 {
		t.Errorf("the group needs %d", g.MinCount)
	}
	w.held(w.pod("ray", "RayJob/mine"), ReasonOwnerUnknown, "RayJob mine", "may not list and watch rayjobs.ray.io")
	w.held(w.pod("serve", "", "leaderworkerset.sigs.k8s.io/name", "serve"), ReasonOwnerUnknown, "LeaderWorkerSet serve", "does not serve leaderworkersets")

	job.SetAnnotations(map[string]string{"reprieve.dev/gang": "false"})
	if _, err := client.Resource(resource("Job")).Namespace("ns").Update(ctx, job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		_, ok := w.GroupOf(member)
		return !ok && w.Hold(member) == (gang.Verdict{}), nil
	})
	if err != nil {
		t.Errorf("a change of the Job is not heard of: %v", err)
	}
}
