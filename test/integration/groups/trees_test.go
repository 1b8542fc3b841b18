package groups

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const inTree = on + ", reprieve.dev/gang-per: tree"

// TestTreesOfObjects tests objects whose groups form a tree (gang-per: tree).
func TestTreesOfObjects(t *testing.T) {
	t.Parallel()
	s := startWith(t, "JobSet, LeaderWorkerSet, RayCluster")
	s.CreateClasses(map[string]int32{"low": 10, "high": 20})
	for _, crd := range []string{"jobset.x-k8s.io_jobsets", "leaderworkerset.x-k8s.io_leaderworkersets", "ray.io_rayclusters"} {
		serve(s, crd)
	}
	for name, test := range map[string]func(*stage.Stage){
		"a LeaderWorkerSet":              treeOfReplicas,
		"a JobSet":                       treeOfJobs,
		"a RayCluster":                   treeOfRoles,
		"a preempted LeaderWorkerSet":    treePreempted,
		"pods of different classes":      treeOfClasses,
		"a tree that cannot be made":     treeRefused,
		"a tree that is no longer asked": treeDropped,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.In(t))
		})
	}
}

// tree waits until the namespace has one CompositePodGroup, which is as expected. The function
// right returns "" for such a CompositePodGroup, and otherwise a description of the difference.
func tree(s *stage.Stage, what string, right func(*v1alpha1.CompositePodGroup) string) *v1alpha1.CompositePodGroup {
	s.Helper()
	var out *v1alpha1.CompositePodGroup
	s.Eventually("the CompositePodGroup "+what, func(ctx context.Context) string {
		var list v1alpha1.CompositePodGroupList
		if err := s.Objects.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
			return err.Error()
		}
		if len(list.Items) != 1 {
			return fmt.Sprintf("there are %d", len(list.Items))
		}
		out = &list.Items[0]
		return right(out)
	})
	return out
}

// joins returns a check for tree: the tree must need a number of groups, and must have the reason.
func joins(groups int32, mode v1alpha1.CompositeDisruptionMode, reason string) func(*v1alpha1.CompositePodGroup) string {
	return func(c *v1alpha1.CompositePodGroup) string {
		now := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		if now == nil || now.Reason != reason || c.Spec.SchedulingPolicy.Gang.MinGroupCount != groups || ptr.Deref(c.Spec.DisruptionMode, "") != mode {
			return fmt.Sprintf("it is %+v with the condition %+v", c.Spec, now)
		}
		return ""
	}
}

// noTrees waits until the namespace has neither PodGroups nor CompositePodGroups.
func noTrees(s *stage.Stage) {
	s.Helper()
	none(s)
	s.Eventually("there is no CompositePodGroup", func(ctx context.Context) string {
		var list v1alpha1.CompositePodGroupList
		if err := s.Objects.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
			return err.Error()
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("there is %s", list.Items[0].Name)
		}
		return ""
	})
}

// scaleTo sets a number in the spec of an object.
func scaleTo(s *stage.Stage, root *unstructured.Unstructured, to int64, path ...string) {
	s.Helper()
	before := root.DeepCopy()
	if err := unstructured.SetNestedField(root.Object, to, append([]string{"spec"}, path...)...); err != nil {
		s.Fatal(err)
	}
	if err := s.Objects.Patch(s.Context(), root, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// treeOfReplicas tests a LeaderWorkerSet: no replica may start before the pods of all replicas
// exist and have room. The tree follows the number of replicas, and is deleted with the object.
func treeOfReplicas(s *stage.Stage) {
	s.AddNodes(6, "a")
	root := lws(s, inTree, "LeaderCreated", 2)
	lwsPod(s, "serve-0", "0", "0")
	lwsPod(s, "serve-0-1", "0", "1")
	lwsPod(s, "serve-1", "1", "0")
	tree(s, "waits for the second replica", joins(2, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonNotEnoughGroups))
	noneStarts(s, "serve-0", "serve-0-1", "serve-1")
	scaleTo(s, root, 3, "replicas")
	tree(s, "follows the object before the start", joins(3, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonNotEnoughGroups))
	scaleTo(s, root, 2, "replicas")
	tree(s, "is as at first", joins(2, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonNotEnoughGroups))
	lwsPod(s, "serve-1-1", "1", "1")
	s.Runs("serve-", 4)
	c := tree(s, "runs", joins(2, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonScheduled))
	if owners := c.OwnerReferences; len(owners) != 1 || owners[0].UID != root.GetUID() || c.Status.Scheduled != 4 {
		s.Errorf("the tree has the owners %v and %d placed members", owners, c.Status.Scheduled)
	}
	for _, pg := range groups(s.Context(), s) {
		if ptr.Deref(pg.Spec.ParentCompositePodGroupName, "") != c.Name || minCount(&pg) != 2 || ptr.Deref(pg.Spec.DisruptionMode, "") != v1alpha1.DisruptionModePodGroup {
			s.Errorf("PodGroup %s is %+v", pg.Name, pg.Spec)
		}
	}
	scaleTo(s, root, 3, "replicas")
	lwsPod(s, "serve-2", "2", "0")
	lwsPod(s, "serve-2-1", "2", "1")
	s.Runs("serve-2", 2)
	scaleTo(s, root, 1, "replicas")
	for _, name := range []string{"serve-1", "serve-1-1", "serve-2", "serve-2-1"} {
		remove(s, s.Pod(name))
	}
	tree(s, "needs one replica", joins(1, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonScheduled))
	s.Eventually("only the first replica has a PodGroup", func(ctx context.Context) string {
		if all := groups(ctx, s); len(all) != 1 {
			return fmt.Sprintf("there are %d", len(all))
		}
		return ""
	})
	remove(s, root)
	noTrees(s)
}

// treeOfJobs tests a JobSet: each replicated job has a PodGroup, and all of them start together.
func treeOfJobs(s *stage.Stage) {
	s.AddNodes(4, "a")
	f := frameworks()["a JobSet"]
	root := create(s, strings.Replace(f.object, "spec:", "metadata: {name: root, annotations: {"+inTree+", reprieve.dev/disruption-mode: All}}\nspec:", 1))
	f.pods(s, root)
	tree(s, "finds no room", joins(2, v1alpha1.CompositeDisruptionModeAll, v1alpha1.ReasonUnschedulable))
	noneStarts(s, "root-driver-", "root-worker-")
	s.AddNodes(1, "b")
	s.Runs("root-", 5)
	tree(s, "runs", joins(2, v1alpha1.CompositeDisruptionModeAll, v1alpha1.ReasonScheduled))
	before := root.DeepCopy()
	if err := unstructured.SetNestedField(root.Object, true, "spec", "suspend"); err != nil {
		s.Fatal(err)
	}
	if err := s.Objects.Patch(s.Context(), root, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	for _, name := range []string{"root-driver-0", "root-worker-0", "root-worker-1"} {
		suspend(s, name)
	}
	noTrees(s)
}

// suspend suspends a Job, as the operator of a suspended JobSet does.
func suspend(s *stage.Stage, name string) {
	s.Helper()
	found, err := s.Kube.BatchV1().Jobs(s.Namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	found.Spec.Suspend = ptr.To(true)
	if _, err := s.Kube.BatchV1().Jobs(s.Namespace).Update(s.Context(), found, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// treeOfRoles tests a RayCluster: the head and each worker group have a PodGroup.
func treeOfRoles(s *stage.Stage) {
	s.AddNodes(4, "a")
	root := create(s, "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: root, annotations: {"+inTree+"}}\n"+
		"spec: {headGroupSpec: {rayStartParams: {}, template: "+podTemplate+"}, workerGroupSpecs: [{groupName: gpu, replicas: 2, minReplicas: 0, maxReplicas: 2, rayStartParams: {}, template: "+podTemplate+"}]}\n")
	members(s, 1, "root-head-", map[string]string{"ray.io/group": "headgroup"}, root)
	members(s, 1, "root-gpu-", map[string]string{"ray.io/group": "gpu"}, root)
	tree(s, "waits for a worker", joins(2, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonNotEnoughGroups))
	noneStarts(s, "root-head-", "root-gpu-")
	owner := ownedBy(root)
	member(s, "root-gpu-late", map[string]string{"ray.io/group": "gpu"}, &owner)
	s.Runs("root-", 3)
	tree(s, "runs", joins(2, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonScheduled))
	remove(s, root)
	noTrees(s)
}

// treePreempted tests a running tree with the mode All: a preemptor that needs the room of one pod
// evicts the whole tree.
func treePreempted(s *stage.Stage) {
	s.AddNodes(4, "a")
	lws(s, inTree+", reprieve.dev/disruption-mode: All", "LeaderCreated", 2)
	for _, unit := range []string{"0", "1"} {
		lwsPod(s, "serve-"+unit, unit, "0")
		lwsPod(s, "serve-"+unit+"-1", unit, "1")
	}
	s.Runs("serve-", 4)
	s.Create(stage.NewPod(s.Namespace, "urgent", "high", 1))
	s.Runs("urgent", 1)
	for _, name := range []string{"serve-0", "serve-0-1", "serve-1", "serve-1-1"} {
		s.Gone(name)
	}
}

// treeOfClasses tests an object whose pods have different classes. The lowest class counts for the
// whole tree, in any order of creation.
func treeOfClasses(s *stage.Stage) {
	s.AddNodes(4, "a")
	lws(s, inTree, "LeaderCreated", 1)
	classed := func(unit, class string) {
		pod := stage.NewPod(s.Namespace, "serve-"+unit, class, 1)
		pod.Labels = map[string]string{lwsLabel + "name": "serve", lwsLabel + "group-index": unit, lwsLabel + "worker-index": "0"}
		s.Create(pod)
	}
	classed("0", "high")
	tree(s, "has the class of the first pod", func(c *v1alpha1.CompositePodGroup) string {
		if class := ptr.Deref(c.Spec.PriorityClassName, ""); class != "high" {
			return "it is " + class
		}
		return ""
	})
	classed("1", "low")
	s.Runs("serve-", 2)
	c := tree(s, "runs", joins(2, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonScheduled))
	for _, pg := range groups(s.Context(), s) {
		if ptr.Deref(pg.Spec.Priority, 0) != 10 || ptr.Deref(c.Spec.Priority, 0) != 10 {
			s.Errorf("the tree has priority %v and PodGroup %s has %v, want 10", c.Spec.Priority, pg.Name, pg.Spec.Priority)
		}
	}
}

// treeRefused tests an object whose class does not exist: its pods wait, and report the reason.
func treeRefused(s *stage.Stage) {
	s.AddNodes(4, "a")
	root := lws(s, inTree+", reprieve.dev/priority-class: late-"+s.Namespace, "LeaderCreated", 1)
	lwsPod(s, "serve-0", "0", "0")
	lwsPod(s, "serve-1", "1", "0")
	s.Eventually("the pods report why they wait", func(ctx context.Context) string {
		for _, pod := range s.Pods(ctx, "serve-") {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "late-"+s.Namespace) {
					return ""
				}
			}
		}
		return "no pod does"
	})
	noneStarts(s, "serve-0", "serve-1")
	annotate(s, root, v1alpha1.AnnotationPriorityClass, "")
	s.Runs("serve-", 2)
}

// treeDropped tests an object that no longer requests a tree. While its pods wait, the change
// applies at once.
func treeDropped(s *stage.Stage) {
	s.AddNodes(4, "a")
	root := lws(s, inTree, "LeaderCreated", 2)
	lwsPod(s, "serve-0", "0", "0")
	lwsPod(s, "serve-0-1", "0", "1")
	tree(s, "waits for the second replica", joins(2, v1alpha1.CompositeDisruptionModeSingle, v1alpha1.ReasonNotEnoughGroups))
	annotate(s, root, v1alpha1.AnnotationGangPer, "")
	s.Runs("serve-", 2)
	s.Eventually("there is no tree", func(ctx context.Context) string {
		var list v1alpha1.CompositePodGroupList
		if err := s.Objects.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil || len(list.Items) > 0 {
			return fmt.Sprintf("there are %d: %v", len(list.Items), err)
		}
		return ""
	})
}
