package groups

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

// start runs a playground whose scheduler makes groups for three kinds, two of which the API server does not serve yet.
func start(t *testing.T) *stage.Stage {
	t.Helper()
	return startWith(t, "Job, JobSet, LeaderWorkerSet")
}

// startWith does so for kinds.
func startWith(t *testing.T, kinds string) *stage.Stage {
	t.Helper()
	config, err := stage.Config{Profiles: []string{stage.ProfileConfig(stage.Profile,
		"{name: Reprieve, args: {groups: {kinds: ["+kinds+"]}}}")}}.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return stage.New(t, playground.Options{Scheduler: playground.SchedulerOptions{Config: config}})
}

// create makes an object of the test's namespace from YAML, with owners.
func create(s *stage.Stage, text string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
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
	u.SetOwnerReferences(owners)
	// The CRD of a kind may have been made just now.
	s.Eventually("a "+u.GetKind()+" can be created", func(ctx context.Context) string {
		if err := s.Objects.Create(ctx, u); err != nil {
			return err.Error()
		}
		return ""
	})
	return u
}

func ownedBy(u *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: ptr.To(true)}
}

// job is a Job of pods of one CPU for the nodes of the test; annotations, podLabels and spec are YAML within braces.
func job(s *stage.Stage, name, annotations, podLabels, spec string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	s.Helper()
	made := create(s, fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s, annotations: {%s}}
spec: {%s, template: {metadata: {labels: {%s}}, spec: {schedulerName: %s, restartPolicy: Never, terminationGracePeriodSeconds: 0,
  nodeSelector: {%s: %s}, containers: [{name: c, image: registry.example/c:1, resources: {requests: {cpu: 1}}}]}}}
`, name, annotations, spec, podLabels, stage.Profile, stage.OwnerLabel, s.Namespace), owners...)
	s.Cleanup(func() { remove(s, made) })
	return made
}

// remove deletes an object with all that it owns.
func remove(s *stage.Stage, u client.Object) {
	s.Helper()
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := client.IgnoreNotFound(s.Objects.Delete(context.WithoutCancel(s.Context()), u, background)); err != nil {
		s.Fatalf("delete %s: %v", u.GetName(), err)
	}
}

// change writes fields of a Job's spec.
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

// groups are the PodGroups of the test.
func groups(ctx context.Context, s *stage.Stage) []v1alpha1.PodGroup {
	s.Helper()
	var list v1alpha1.PodGroupList
	if err := s.Objects.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		s.Fatalf("list PodGroups: %v", err)
	}
	return list.Items
}

// group waits for the PodGroup whose name starts so, until the rest of its fields is right.
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

// noRoom waits until a gang has been planned in vain, and sees that none of its members has a node.
func noRoom(s *stage.Stage, prefix string, pods ...string) {
	s.Helper()
	group(s, prefix, "has no room", func(pg *v1alpha1.PodGroup) bool {
		for _, c := range pg.Status.Conditions {
			if c.Type == v1alpha1.ConditionPodGroupScheduled && c.Reason == v1alpha1.ReasonUnschedulable {
				return true
			}
		}
		return false
	})
	for _, name := range pods {
		if n := placed(s, name); n > 0 {
			s.Errorf("%d pods of %s have a node, though the gang has no room", n, name)
		}
	}
}

// placed counts the pods with a node whose names start so.
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

// none waits until the test has no PodGroup.
func none(s *stage.Stage) {
	s.Helper()
	s.Eventually("there is no PodGroup", func(ctx context.Context) string {
		if all := groups(ctx, s); len(all) > 0 {
			return fmt.Sprintf("%s is there", all[0].Name)
		}
		return ""
	})
}
