package groups

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// start starts a playground whose scheduler derives groups for three kinds. At first, the API
// server serves only one of these kinds, Job.
func start(t *testing.T) *stage.Stage {
	t.Helper()
	return startWith(t, "Job, JobSet, LeaderWorkerSet")
}

// startWith starts a playground whose scheduler derives groups for the given kinds.
func startWith(t *testing.T, kinds string) *stage.Stage {
	t.Helper()
	return startOf(t, playground.Options{}, map[string]string{stage.Profile: "groups: {kinds: [" + kinds + "]}"})
}

// startOf starts a playground whose scheduler has several profiles. profiles maps the name of a
// profile to Reprieve's arguments in YAML.
func startOf(t *testing.T, options playground.Options, profiles map[string]string) *stage.Stage {
	t.Helper()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		all = append(all, stage.ProfileConfig(name, "{name: Reprieve, args: {"+profiles[name]+"}}"))
	}
	config, err := stage.Config{Profiles: all}.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	options.Scheduler.Config = config
	return stage.New(t, options)
}

// create creates the object in a YAML text, in the namespace of the test, with owner references.
func create(s *stage.Stage, text string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	s.Helper()
	u := object(s, text)
	u.SetOwnerReferences(owners)
	// Try again for some time: if the CRD is new, the API server may not serve its kind yet.
	s.Eventually("a "+u.GetKind()+" can be created", func(ctx context.Context) string {
		if err := s.Objects.Create(ctx, u); err != nil {
			return err.Error()
		}
		return ""
	})
	return u
}

// object returns the object in a YAML text, in the namespace of the test.
func object(s *stage.Stage, text string) *unstructured.Unstructured {
	s.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		s.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		s.Fatal(err)
	}
	u.SetNamespace(s.Namespace)
	return u
}

func ownedBy(u *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: ptr.To(true)}
}

// job creates a Job whose pods request one CPU and run on the nodes of the test. annotations and
// podLabels are YAML mappings without braces, and spec has fields of the Job's spec in the same
// form.
func job(s *stage.Stage, name, annotations, podLabels, spec string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	s.Helper()
	return jobOf(s, "schedulerName: "+stage.Profile, name, annotations, podLabels, spec, owners...)
}

// jobOf is like job, but has additional fields for the spec of the pods.
func jobOf(s *stage.Stage, podSpec, name, annotations, podLabels, spec string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	s.Helper()
	made := create(s, fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s, annotations: {%s}}
spec: {%s, template: {metadata: {labels: {%s}}, spec: {%s, restartPolicy: Never, terminationGracePeriodSeconds: 0,
  nodeSelector: {%s: %s}, containers: [{name: c, image: registry.example/c:1, resources: {requests: {cpu: 1}}}]}}}
`, name, annotations, spec, podLabels, podSpec, stage.OwnerLabel, s.Namespace), owners...)
	s.Cleanup(func() { remove(s, made) })
	return made
}

// remove deletes an object and all objects that it owns.
func remove(s *stage.Stage, u client.Object) {
	s.Helper()
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := client.IgnoreNotFound(s.Objects.Delete(context.WithoutCancel(s.Context()), u, background)); err != nil {
		s.Fatalf("delete %s: %v", u.GetName(), err)
	}
}

// change changes the spec of a Job.
func change(s *stage.Stage, name string, edit func(*batchv1.JobSpec)) {
	s.Helper()
	s.Eventually("Job "+name+" can be changed", func(ctx context.Context) string {
		found, err := s.Kube.BatchV1().Jobs(s.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		edit(&found.Spec)
		if _, err := s.Kube.BatchV1().Jobs(s.Namespace).Update(ctx, found, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// annotate sets an annotation of an object, or removes it if the value is empty.
func annotate(s *stage.Stage, obj client.Object, key, value string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if value == "" {
		patch = fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, key)
	}
	if err := s.Objects.Patch(s.Context(), obj, client.RawPatch(types.MergePatchType, patch)); err != nil {
		s.Fatalf("annotate %s: %v", obj.GetName(), err)
	}
}

// namespaceOf returns the test's namespace for use in a patch.
func namespaceOf(s *stage.Stage) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
}

// queue creates a Queue with a name that contains the test's namespace. The Queue is deleted after
// the test.
func queue(s *stage.Stage, spec v1alpha1.QueueSpec) *v1alpha1.Queue {
	s.Helper()
	made := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "team-" + s.Namespace}, Spec: spec}
	s.Create(made)
	s.Cleanup(func() { remove(s, made) })
	return made
}

// groups returns the PodGroups in the test's namespace.
func groups(ctx context.Context, s *stage.Stage) []v1alpha1.PodGroup {
	s.Helper()
	var list v1alpha1.PodGroupList
	if err := s.Objects.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		s.Fatalf("list PodGroups: %v", err)
	}
	return list.Items
}

// group waits until a PodGroup whose name has the prefix exists and right returns true. It returns
// the PodGroup.
func group(s *stage.Stage, prefix, what string, right func(*v1alpha1.PodGroup) bool) *v1alpha1.PodGroup {
	s.Helper()
	var out *v1alpha1.PodGroup
	s.Eventually("PodGroup "+prefix+"… "+what, func(ctx context.Context) string {
		var seen []string
		for _, pg := range groups(ctx, s) {
			if strings.HasPrefix(pg.Name, prefix) && right(&pg) {
				out = &pg
				return ""
			}
			seen = append(seen, fmt.Sprintf("%s needs %d, has placed %d", pg.Name, minCount(&pg), pg.Status.Scheduled))
		}
		return fmt.Sprintf("there are %q", seen)
	})
	return out
}

func minCount(pg *v1alpha1.PodGroup) int32 {
	if p := pg.Spec.SchedulingPolicy; p != nil && p.Gang != nil {
		return p.Gang.MinCount
	}
	return 0
}

func needs(count int32) func(*v1alpha1.PodGroup) bool {
	return func(pg *v1alpha1.PodGroup) bool { return minCount(pg) == count }
}

// waitsFor returns a check for group: the gang must wait for the reason, and its message must
// contain all the words.
func waitsFor(reason string, words ...string) func(*v1alpha1.PodGroup) bool {
	return func(pg *v1alpha1.PodGroup) bool {
		c := meta.FindStatusCondition(pg.Status.Conditions, v1alpha1.ConditionPodGroupScheduled)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && stage.Mentions(c.Message, words)
	}
}

// noRoom waits until a gang has found no room. It checks that the pods with the given name prefixes
// have no node.
func noRoom(s *stage.Stage, prefix string, pods ...string) {
	s.Helper()
	group(s, prefix, "has no room", waitsFor(v1alpha1.ReasonUnschedulable))
	noneStarts(s, pods...)
}

// noneStarts checks that the pods with the given name prefixes have no node.
func noneStarts(s *stage.Stage, pods ...string) {
	s.Helper()
	for _, name := range pods {
		if n := placed(s, name); n > 0 {
			s.Errorf("%d pods of %s have a node, though the gang waits", n, name)
		}
	}
}

// placed returns the number of pods with a node whose names have a prefix.
func placed(s *stage.Stage, prefix string) int {
	s.Helper()
	n := 0
	for _, pod := range s.Pods(s.Context(), prefix) {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// place waits until exactly count pods whose names have the prefix have a node.
func place(s *stage.Stage, what, prefix string, count int) {
	s.Helper()
	s.Eventually(what, func(context.Context) string {
		if n := placed(s, prefix); n != count {
			return fmt.Sprintf("%d have a node", n)
		}
		return ""
	})
}

// none waits until no PodGroup exists in the test's namespace.
func none(s *stage.Stage) {
	s.Helper()
	s.Eventually("there is no PodGroup", func(ctx context.Context) string {
		if all := groups(ctx, s); len(all) > 0 {
			return fmt.Sprintf("%s is there", all[0].Name)
		}
		return ""
	})
}
