package grouping

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/reprieve-dev/reprieve/internal/gang"
)

// bound is the longest time that a step of a test may take on a busy machine.
const bound = time.Minute

// served is a fake discovery client: the served resources by group and version.
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

// TestFollower checks that Start returns when all readable kinds are known. It must return even if
// a kind is not served or may not be read. The verdicts on pods of these kinds must give the
// reason.
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

// TestKindThatIsNotServed checks that a missing kind is logged only once, regardless of the number
// of attempts.
func TestKindThatIsNotServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "LeaderWorkerSet")
	f := NewFollower(w.Resolver, dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), served{})
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	for range 3 {
		for _, k := range w.kinds {
			if err := f.look(klog.NewContext(t.Context(), logger), k); err != nil {
				t.Fatal(err)
			}
		}
	}
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatal("The log is not kept")
	}
	if n := strings.Count(sink.GetBuffer().String(), "does not serve a kind"); n != 1 {
		t.Errorf("It is said %d times:\n%s", n, sink.GetBuffer())
	}
}

// TestRightWithdrawn withdraws the right to read a kind. The verdict on a pod whose owner is
// unknown must then name the kind.
func TestRightWithdrawn(t *testing.T) {
	t.Parallel()
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "namespaces"}: "NamespaceList", jobs: "JobList",
	})
	var withdrawn atomic.Bool
	watches := make(chan *watch.RaceFreeFakeWatcher, 100)
	client.PrependReactor("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return withdrawn.Load(), nil, apierrors.NewForbidden(jobs.GroupResource(), "", nil)
	})
	client.PrependWatchReactor("jobs", func(clienttesting.Action) (bool, watch.Interface, error) {
		if withdrawn.Load() {
			return true, nil, apierrors.NewForbidden(jobs.GroupResource(), "", nil)
		}
		w := watch.NewRaceFreeFake()
		watches <- w
		return true, w, nil
	})
	w := newWorld(t, false, "Job")
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	f := NewFollower(w.Resolver, client, served{"batch/v1": {{Name: "jobs", Kind: "Job"}}})
	if err := f.Start(ctx); err != nil {
		t.Fatal(err)
	}
	pod := w.pod("member", "Job/later")
	const refused = "it may not list and watch jobs.batch"
	says := func(isRefused bool) {
		t.Helper()
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
			f.synced()
			return strings.Contains(w.Hold(pod).Message, refused) == isRefused, nil
		})
		if err != nil {
			t.Fatalf("it says %q: %v", w.Hold(pod).Message, err)
		}
	}
	says(false)
	first := <-watches
	withdrawn.Store(true)
	first.Stop()
	says(true)
	f.synced()
	w.held(pod, ReasonOwnerUnknown, "Job later", refused)
	withdrawn.Store(false)
	says(false)
}
